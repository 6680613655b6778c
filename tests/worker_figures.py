"""Figures of several workers, measured on the release build (`make figures`, as root).

Two hosts on interfaces with two receive queues each, two workers. Traffic is UDP, numbered by
flow: what is lost or out of order is counted where it arrives.
"""

import os
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import threading
import time
from socket import SOCK_DGRAM, SOL_SOCKET

import lab as bench
from test_workers import STUCK

RELEASE = bench.ROOT / "target/release/quiver"
TWO_WORKERS = "cpu { workers 2 }\n"
# Where stalls are looked for: real-time workers, so that this script, which shares their cores, does not make them
# wait; they rest between polls, so that it runs at all.
REAL_TIME = {"extra": "cpu { workers 2 scheduler-policy fifo }\n", "unix": "poll-sleep-usec 100"}
PORT = 4000
SO_RCVBUFFORCE = 33
FLOWS = 16


class Flows:
    """Numbered datagrams of many flows from one host to another, and what becomes of them."""

    def __init__(self, sender, receiver):
        self.receiver = receiver.socket(SOCK_DGRAM, ("10.0.2.2", PORT), timeout=1.0)
        # Room for what comes while this script waits for a core: it is not the one that is measured.
        self.receiver.setsockopt(SOL_SOCKET, SO_RCVBUFFORCE, 32 << 20)
        self.senders = [sender.socket(SOCK_DGRAM) for _ in range(FLOWS)]
        self.sent = [0] * FLOWS
        self.received = [0] * FLOWS
        self.last = [-1] * FLOWS
        self.misplaced = 0
        self.arrivals = []
        self.open = True
        self.listener = threading.Thread(target=self.listen)
        self.listener.start()

    def listen(self):
        while self.open:
            try:
                flow, number = struct.unpack("!II", self.receiver.recv(64)[:8])
            except TimeoutError:
                continue
            self.arrivals.append(time.monotonic())
            self.misplaced += number <= self.last[flow]
            self.last[flow] = number
            self.received[flow] += 1

    def send(self, flow):
        self.senders[flow].sendto(struct.pack("!II", flow, self.sent[flow]).ljust(64, b"."), ("10.0.2.2", PORT))
        self.sent[flow] += 1

    def finish(self):
        """Waits for what is under way; gives how many were sent, lost, and out of order."""
        time.sleep(0.5)
        self.open = False
        self.listener.join()
        for sock in (self.receiver, *self.senders):
            sock.close()
        return sum(self.sent), sum(self.sent) - sum(self.received), self.misplaced


def descriptors(process):
    return len(list(pathlib.Path(f"/proc/{process.pid}/fd").iterdir()))


def memory(process):
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024


def summary(values, unit, digits=2):
    return (
        f"{statistics.median(values):.{digits}f} {unit} ({min(values):.{digits}f} to {max(values):.{digits}f}, "
        f"{len(values)} times)"
    )


def idle(router, seconds=5):
    time.sleep(1)
    before = router.cpu_seconds()
    time.sleep(seconds)
    print(f"idle, two workers: {(router.cpu_seconds() - before) / seconds * 100:.2f} % of a core (over {seconds} s)")


def first_after_idle(h1, h2, times=500):
    """From sending a datagram to a router that sleeps until it is read at the far host; and then, awake."""
    sender, receiver = h1.socket(SOCK_DGRAM), h2.socket(SOCK_DGRAM, ("10.0.2.2", PORT), timeout=1.0)

    def once():
        start = time.perf_counter()
        sender.sendto(b"now", ("10.0.2.2", PORT))
        receiver.recv(64)
        return (time.perf_counter() - start) * 1e6

    asleep, awake = [], []
    for _ in range(times):
        time.sleep(random.uniform(0.005, 0.03))
        asleep.append(once())
        awake.append(once())
    sender.close()
    receiver.close()
    print(f"first packet after idle, host to host: {summary(asleep, 'us', 0)}")
    print(f"the next one, workers awake: {summary(awake, 'us', 0)}")


def bursts(router, h1, h2, count=10_000):
    flows = Flows(h1, h2)
    sleeps = lambda: sum(thread["sleeps"] for thread in router.cli_json("show threads")["threads"])
    before = sleeps()
    for _ in range(count):
        for _ in range(random.randint(1, 16)):
            flows.send(random.randrange(FLOWS))
        time.sleep(10 ** random.uniform(-5, -2))
    sent, lost, misplaced = flows.finish()
    print(
        f"{count} bursts after pauses of 10 us to 10 ms: {sent} packets, {lost} lost, {misplaced} out of order; "
        f"workers slept {sleeps() - before} times"
    )


def probe(seconds=8):
    """The longest times, in ms, that a real-time thread which only spins was kept from running, on each core. It rests
    in between: Linux stops those that do not."""
    code = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
worst = 0.0
for _ in range(int(sys.argv[2])):
    last = time.perf_counter()
    end = last + 0.7
    while last < end:
        now = time.perf_counter()
        worst = max(worst, now - last)
        last = now
    time.sleep(0.3)
print(worst * 1e3)
"""
    found = []
    for core in sorted(os.sched_getaffinity(0))[:2]:
        done = subprocess.run([sys.executable, "-c", code, str(core), str(seconds)], capture_output=True, text=True)
        found.append(float(done.stdout))
    return found


def changes(router, h1, h2, count=1000):
    """Everything changes again and again, while numbered flows pass."""
    print(
        "a thread that only spins, kept from running for at most: " + ", ".join(f"{worst:.2f} ms" for worst in probe())
    )
    flows = Flows(h1, h2)
    end = threading.Event()

    def send():
        while not end.is_set():
            for flow in range(FLOWS):
                flows.send(flow)
            time.sleep(0.001)

    sending = threading.Thread(target=send)

    def change(number):
        router.batch(
            f"set interface rx-placement e0 queue {number % 2} worker {number // 2 % 2}\n"
            f"set interface rx-placement e1 queue {number % 2} worker {number // 3 % 2}\n"
            f"set interface rx-mode e0 queue {number % 2} {('polling', 'interrupt', 'adaptive')[number % 3]}\n"
            + (
                "create tap id 77 name t77 num-rx-queues 2\nset interface state t77 up\n"
                "set interface ip address t77 10.7.7.1/24\n"
                if number % 2 == 0
                else "delete tap t77\n"
            )
        )

    change(0)
    change(1)
    files, resident = descriptors(router.process), memory(router.process)
    router.cli("clear runtime")
    sending.start()
    for number in range(count):
        change(number)
    end.set()
    sending.join()
    threads = router.cli_json("show runtime")["threads"]
    sent, lost, misplaced = flows.finish()
    longest = [max(times["microseconds"] for times in thread["rounds"]) / 1e3 for thread in threads]
    over = sum(times["rounds"] for thread in threads for times in thread["rounds"] if times["microseconds"] > 10_000)
    gaps = [(later - earlier) * 1e3 for earlier, later in zip(flows.arrivals, flows.arrivals[1:])]
    print(
        f"{count} changes (queues placed, modes set, an interface made or removed): {sent} packets of {FLOWS} flows, "
        f"{lost} lost, {misplaced} out of order"
    )
    print(
        "the longest round of each worker took less than "
        + ", ".join(f"{ms:.1f} ms" for ms in longest)
        + f"; {over} rounds may have taken over 10 ms; longest gap between arrivals {max(gaps):.1f} ms"
    )
    router.check_health()
    print(
        f"leaked: {descriptors(router.process) - files} descriptors, "
        f"{memory(router.process) - resident:.1f} MB of {resident:.1f} MB"
    )


def answers_while_stuck(router):
    router.batch(STUCK.replace("stall 4000", "stall 8000"))
    router.cli("packet-generator enable-stream stall")
    stuck = lambda: router.cli_json("show threads")["threads"][2]["state"] == "stalled"
    bench.wait_until(stuck, "the worker is stuck")
    took = {"show": [], "ip route add": [], "create tap": []}

    def timed(kind, command):
        start = time.monotonic()
        router.cli(command)
        took[kind].append((time.monotonic() - start) * 1e3)

    for number in range(20):
        timed("show", ("show interface", "show runtime", "show trace", "show threads")[number % 4])
        timed("ip route add", f"ip route add 203.0.{number}.0/24 via 10.0.2.2")
        timed("create tap", f"create tap id {100 + number} name s{number}")
    assert stuck(), "all of that while it was stuck"
    for kind, times in took.items():
        print(f"a worker is stuck, '{kind}': {summary(times, 'ms', 1)}, starting 'quiver cli' included")


def main():
    if os.geteuid() != 0:
        sys.exit("Namespaces need root: sudo make figures")
    for driver in ("tap", "af_packet"):
        lab = bench.Lab()
        try:
            router, h1, h2 = lab.two_hosts(driver, queues=2, extra=TWO_WORKERS, binary=RELEASE)
            assert h1.reaches("10.0.2.2")
            print(f"-- {driver} --", flush=True)
            measures = sys.argv[1:] or ["idle", "first", "bursts", "stuck", "changes"]
            if "idle" in measures:
                idle(router)
            if "first" in measures:
                first_after_idle(h1, h2)
            if "bursts" in measures:
                bursts(router, h1, h2)
            if "stuck" in measures:
                answers_while_stuck(router)
        finally:
            lab.tear_down()
        lab = bench.Lab()
        try:
            router, h1, h2 = lab.two_hosts(driver, queues=2, binary=RELEASE, **REAL_TIME)
            assert h1.reaches("10.0.2.2")
            if "changes" in measures:
                changes(router, h1, h2)
        finally:
            lab.tear_down()


if __name__ == "__main__":
    main()
