"""The other side of a memif, by hand: it says and writes what it likes."""

import array
import contextlib
import mmap
import os
import random
import socket
import struct
import threading
import time


class Liar:
    """A slave by hand, with any memory, rings and messages. One ring each way of 16 slots, each with 16 buffers of
    2048 bytes."""

    HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(2, 9)
    RING = 128 + 16 * 16

    def __init__(self, stack, filename):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(5)
        stack.callback(self.socket.close)
        self.socket.connect(filename)
        assert self.hear() == self.HELLO
        self.file = os.memfd_create("liar")
        stack.callback(os.close, self.file)
        os.truncate(self.file, 4096 + 2 * 16 * 2048)
        self.memory = mmap.mmap(self.file, 4096 + 2 * 16 * 2048)
        self.event = os.eventfd(0)
        stack.callback(os.close, self.event)

    def hear(self):
        said = self.socket.recv(200)
        return struct.unpack_from("<H", said)[0] if said else None

    def say(self, kind, body=b"", descriptor=None):
        told = (
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))] if descriptor is not None else []
        )
        self.socket.sendmsg([(struct.pack("<H", kind) + body).ljust(128, b"\0")], told)

    def agree(self):
        """As it should be, up to the point where packets flow."""
        for to_master in (1, 0):
            struct.pack_into("<I", self.memory, (1 - to_master) * self.RING, 0x3E31F20)
        said = [
            (self.INIT, struct.pack("<HIB24s32s", 0x200, 0, 0, b"", b"liar"), None),
            (self.ADD_REGION, struct.pack("<HQ", 0, len(self.memory)), self.file),
            (self.ADD_RING, struct.pack("<HHHIBH", 1, 0, 0, 0, 4, 0), self.event),
            (self.ADD_RING, struct.pack("<HHHIBH", 0, 0, 0, self.RING, 4, 0), self.event),
        ]
        for message in said:
            self.say(*message)
            assert self.hear() == 1, message
        self.say(self.CONNECT, b"liar0")
        assert self.hear() == self.CONNECTED
        return self

    def describe(self, slot, length, offset=4096, flags=0, region=0, ring=0):
        struct.pack_into("<HHIII", self.memory, ring * self.RING + 128 + 16 * slot, flags, region, length, offset, 0)

    def head(self, value, ring=0):
        struct.pack_into("<H", self.memory, ring * self.RING + 6, value)

    def tail(self, ring=0):
        return struct.unpack_from("<H", self.memory, ring * self.RING + 64)[0]


class Fiend:
    """A hostile peer that lives for a short time. It begins as a slave or a master should, then does anything."""

    def __init__(self, chance, station):
        self.chance = chance
        self.station = station
        self.lies = chance.choice([0, 0, 0.02, 0.15])

    def truth_or(self, value, most):
        """A number, now and then another one."""
        pick = self.chance.random()
        if pick >= self.lies:
            return value
        return self.chance.choice([0, 1, most, most - 1, most // 2, self.chance.randrange(most + 1)])

    def frame(self):
        """A packet for the router, or bytes."""
        length = self.chance.choice([14, 42, 60, 64, 100, 1514, 2048])
        if self.chance.random() < 0.3:
            return self.chance.randbytes(length)
        ip = (
            bytes([self.truth_or(0x45, 255), 0])
            + struct.pack("!H", self.truth_or(max(length - 14, 20), 65535))
            + bytes(4)
        )
        ip += bytes([64, self.truth_or(17, 255), 0, 0, 10, 9, 9, 9, 10, 0, self.chance.randrange(4), 2])
        total = sum(struct.unpack("!10H", ip))
        checksum = 0xFFFF - (total % 0xFFFF)
        ip = ip[:10] + struct.pack("!H", self.truth_or(checksum, 65535)) + ip[12:]
        return (self.station + b"\2\0\0\0\0\7" + b"\x08\0" + ip + self.chance.randbytes(max(length - 34, 0)))[:2048]

    def scribble(self, memory, rings, buffers, events, seconds):
        """Writes to shared memory for a while: frames, and anything else."""
        chance, size = self.chance, len(memory)
        # Who agreed honestly is not bound to go on so.
        self.lies = chance.choice([0, 0.01, 0.2])
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            ring = chance.choice(rings)
            what = chance.random()
            if what < 0.4:
                frame = self.frame()
                at = max(buffers, 0) + 2048 * chance.randrange(16)
                if at + len(frame) <= size:
                    memory[at : at + len(frame)] = frame
                slot = ring + 128 + 16 * chance.randrange(16)
                if slot + 12 <= size:
                    described = (
                        self.truth_or(0, 65535),
                        self.truth_or(0, 65535),
                        self.truth_or(len(frame), 2**32 - 1),
                        self.truth_or(at, 2**32 - 1),
                    )
                    struct.pack_into("<HHII", memory, slot, *described)
            elif what < 0.8:
                word = ring + chance.choice([6, 64])
                if word + 2 <= size:
                    step = struct.unpack_from("<H", memory, word)[0] + chance.randrange(4)
                    struct.pack_into("<H", memory, word, self.truth_or(step & 0xFFFF, 65535))
                    for event in events:
                        os.set_blocking(event, False)
                        with contextlib.suppress(BlockingIOError):
                            os.eventfd_write(event, self.truth_or(1, 2**64 - 2))
            elif what < 0.9:
                at = chance.randrange(size)
                some = chance.randbytes(min(chance.randrange(1, 64), size - at))
                memory[at : at + len(some)] = some
            else:
                time.sleep(chance.random() * 0.002)

    def as_slave(self, filename):
        """Connects to a master; goes at any point."""
        chance = self.chance
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError, AssertionError, TypeError, ValueError))
            peer = Liar(stack, filename)
            peer.socket.settimeout(0.2)
            truth = self.truth_or
            said = [
                (
                    Liar.INIT,
                    struct.pack(
                        "<HIB24s32s", truth(0x200, 65535), truth(0, 9), truth(0, 255), b"", chance.randbytes(8)
                    ),
                    None,
                ),
                (Liar.ADD_REGION, struct.pack("<HQ", truth(0, 65535), truth(len(peer.memory), 2**63)), peer.file),
                (
                    Liar.ADD_RING,
                    struct.pack("<HHHIBH", 1, truth(0, 300), truth(0, 9), truth(0, 2**32 - 1), truth(4, 255), 0),
                    peer.event,
                ),
                (
                    Liar.ADD_RING,
                    struct.pack(
                        "<HHHIBH", 0, truth(0, 300), truth(0, 9), truth(Liar.RING, 2**32 - 1), truth(4, 255), 0
                    ),
                    peer.event,
                ),
                (Liar.CONNECT, b"fiend", None),
            ]
            if chance.random() < 0.1:
                chance.shuffle(said)
            for ring in (0, 1):
                struct.pack_into("<I", peer.memory, ring * Liar.RING, truth(0x3E31F20, 2**32 - 1))
            for message in said:
                pick = chance.random()
                if pick < 0.02:
                    return
                if pick < 0.06:
                    peer.socket.send(chance.randbytes(chance.randrange(1, 200)))
                if pick < 0.08:
                    message = (*message[:2], peer.event if message[2] == peer.file else peer.file)
                peer.say(*message)
                peer.hear()
            if chance.random() < 0.1:
                flags = os.O_RDWR | (os.O_NONBLOCK if chance.random() < 0.5 else 0)
                os.set_blocking(peer.event, flags & os.O_NONBLOCK == 0)
                os.eventfd_write(peer.event, 2**64 - 3)
            os.eventfd_write(peer.event, 1)
            self.scribble(peer.memory, [0, Liar.RING], 4096, [peer.event], chance.random() * 0.3)
            if chance.random() < 0.3:
                peer.memory.close()
                os.truncate(peer.file, chance.choice([0, 1, 4096, 8192]))
                time.sleep(chance.random() * 0.05)
            elif chance.random() < 0.2:
                peer.say(Liar.DISCONNECT, chance.randbytes(100))

    def as_master(self, listener):
        """Waits for a slave, whose memory it gets."""
        chance, truth = self.chance, self.truth_or
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError, AssertionError, TypeError, ValueError))
            peer, _ = listener.accept()
            stack.callback(peer.close)
            peer.settimeout(0.2)

            def say(kind, body=b""):
                pick = chance.random()
                if pick < 0.03:
                    raise OSError
                peer.send(
                    chance.randbytes(chance.randrange(1, 200))
                    if pick < 0.06
                    else (struct.pack("<H", kind) + body).ljust(128, b"\0")
                )

            say(
                Liar.HELLO,
                struct.pack(
                    "<32sHHHHHB",
                    b"fiend",
                    truth(0x200, 65535),
                    truth(0x200, 65535),
                    truth(255, 65535),
                    truth(0, 65535),
                    truth(0, 65535),
                    truth(14, 255),
                ),
            )
            memory, rings, length, events = None, [], 0, []
            while True:
                said, told, _, _ = peer.recvmsg(200, 4 * 64)
                descriptors = array.array("i")
                for _, _, data in told:
                    descriptors.frombytes(data[: len(data) - len(data) % 4])
                for descriptor in descriptors:
                    stack.callback(os.close, descriptor)
                if len(said) < 128:
                    return
                kind = struct.unpack_from("<H", said)[0]
                if kind == Liar.ADD_REGION and descriptors:
                    length = struct.unpack_from("<Q", said, 4)[0]
                    memory = mmap.mmap(descriptors[0], length)
                elif kind == Liar.ADD_RING:
                    rings.append(struct.unpack_from("<I", said, 8)[0])
                    events += descriptors
                if kind == Liar.CONNECT:
                    say(Liar.CONNECTED, b"fiend")
                    break
                say(1)
            if memory is None or not rings:
                return
            with contextlib.suppress(OSError):
                os.ftruncate(events[0], 0)
            for event in events:
                os.eventfd_write(event, 1)
            self.scribble(memory, rings, min(length - 2048 * 16, max(rings) + 4096), events, chance.random() * 0.3)


def torment(slave_of, master_at, station, seconds, seed):
    """So long, one fiend after the other, in either role; how many lives."""
    lives = [0, 0]

    def slaves():
        chance = random.Random(seed)
        while time.monotonic() < end:
            Fiend(chance, station).as_slave(slave_of)
            lives[0] += 1

    with contextlib.suppress(FileNotFoundError):
        os.unlink(master_at)
    end = time.monotonic() + seconds
    others = threading.Thread(target=slaves)
    others.start()
    chance = random.Random(seed + 1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.settimeout(1)
        listener.bind(master_at)
        listener.listen(4)
        while time.monotonic() < end:
            Fiend(chance, station).as_master(listener)
            lives[1] += 1
    others.join()
    return lives
