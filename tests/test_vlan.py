"""Sub-interfaces against a peer that tags: this kernel has no 802.1Q, so scapy writes and reads the
frames, and two routers speak to each other for what needs a whole TCP.

    peer (tags) ---- e0 [ router ] e1 ---- h2
"""

import os
import socket
import struct
import time

import pytest

from conftest import require
from lab import CommandFailed, wait_until
from test_transport import transfer

scapy = pytest.importorskip("scapy.all", reason="needs python3-scapy (make deps)")

SOL_PACKET, PACKET_AUXDATA = 263, 8
VLAN_VALID, TPID_VALID = 1 << 4, 1 << 6
DOT1Q, DOT1AD = 0x8100, 0x88A8
PEER_MAC = "02:00:00:00:00:99"

# How a sub-interface is made, and the tags of its frames.
KINDS = {
    "dot1q": ("100", [(DOT1Q, 100)]),
    "dot1ad": ("7 dot1ad 100 exact-match", [(DOT1AD, 100)]),
    "qinq": ("7 dot1q 10 inner-dot1q 20 exact-match", [(DOT1Q, 10), (DOT1Q, 20)]),
    "qinad": ("7 dot1ad 10 inner-dot1q 20 exact-match", [(DOT1AD, 10), (DOT1Q, 20)]),
    "untagged": ("7 untagged", []),
}


def tagged(frame, tags, priority=0):
    """The frame's bytes with tags after its addresses."""
    frame = bytes(frame)
    tags = b"".join(struct.pack("!HH", tpid, priority << 13 | vid) for tpid, vid in tags)
    return frame[:12] + tags + frame[12:]


class Peer:
    """The other end of the router's `e0`: sends and receives whole frames, tags and all. The kernel
    takes a tag out of what a socket receives and tells it beside the frame."""

    def __init__(self, host):
        self.socket = host.frames("eth0", timeout=5)
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)

    def send(self, frame):
        self.socket.send(bytes(frame))

    def receive(self):
        while True:
            frame, beside, _, (_, _, direction, *_) = self.socket.recvmsg(70000, 256)
            if direction == socket.PACKET_OUTGOING:
                continue
            for level, kind, data in beside:
                if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                    status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data)
                    if status & VLAN_VALID:
                        tpid = tpid if status & TPID_VALID else DOT1Q
                        frame = frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
            return frame

    def wait_for(self, wanted, what, seconds=5):
        """The next frame for which `wanted` holds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                frame = self.receive()
            except TimeoutError:
                break
            if wanted(frame):
                return frame
        raise AssertionError(f"waited {seconds} s for {what}: timeout")


def make_room(router, name, host, interface):
    """Lets tags come on top of the MTU. Linux by itself allows for one of 802.1Q."""
    router.cli(f"set interface mtu 1508 {name}")
    router.cli(f"set interface mtu packet 1500 {name}")
    host.ip("link", "set", interface, "mtu", 1508)


def trunk(lab, driver, command):
    """The bench above: the peer is 10.0.1.2 on a sub-interface made by `command`."""
    router, peer, h2 = lab.router(), lab.host("peer"), lab.host("h2")
    router.attach(peer, "e0", driver, None)
    router.attach(h2, "e1", driver, "10.0.2.2/24")
    router.cli("set interface state e0 up")
    make_room(router, "e0", peer, "eth0")
    name = router.cli(f"create sub-interfaces e0 {command}").strip()
    for interface, address in ((name, "10.0.1.1/24"), ("e1", "10.0.2.1/24")):
        router.cli(f"set interface ip address {interface} {address}")
        router.cli(f"set interface state {interface} up")
    h2.ip("route", "add", "default", "via", "10.0.2.1")
    # A socket would see checksums that are left to the device as they are.
    require("ethtool")
    h2.run("ethtool", "-K", "eth0", "tx", "off")
    station = router.cli_json("show hardware-interfaces e0")["interfaces"][0]["mac"]
    return router, Peer(peer), h2, name, station


@pytest.mark.parametrize("kind", KINDS)
def test_a_tagging_peer_is_answered_and_forwarded(lab, driver, kind):
    command, tags = KINDS[kind]
    router, peer, h2, name, station = trunk(lab, driver, command)
    head = tagged(scapy.Ether(src=station, dst=PEER_MAC), tags)[: 12 + 4 * len(tags)]

    # ARP, with the tags.
    question = scapy.Ether(src=PEER_MAC, dst="ff:ff:ff:ff:ff:ff", type=0x0806) / scapy.ARP(
        psrc="10.0.1.2", pdst="10.0.1.1", hwsrc=PEER_MAC
    )
    peer.send(tagged(question, tags))
    answer = scapy.Ether(src=station, dst=PEER_MAC, type=0x0806) / scapy.ARP(
        op=2, hwsrc=station, psrc="10.0.1.1", hwdst=PEER_MAC, pdst="10.0.1.2"
    )
    assert peer.wait_for(lambda frame: frame[:6] == head[:6], "the answer") == tagged(answer, tags)
    wait_until(lambda: "10.0.1.2" in router.neighbours(), "the peer is known")

    # A ping of the router; the priority of a tag ends here.
    def at_ip(frame):
        return frame[: len(head) + 2] == head + b"\x08\x00" and scapy.IP(frame[len(head) + 2 :])

    ether = scapy.Ether(src=PEER_MAC, dst=station, type=0x0800)
    ping = ether / scapy.IP(src="10.0.1.2", dst="10.0.1.1") / scapy.ICMP(id=7, seq=9) / b"tagged"
    peer.send(tagged(ping, tags, priority=5))
    reply = at_ip(peer.wait_for(at_ip, "the echo reply"))
    assert (reply.src, reply[scapy.ICMP].type, reply[scapy.Raw].load[:6]) == ("10.0.1.1", 0, b"tagged")

    # Through the router to a Linux host and back.
    echo = h2.socket(socket.SOCK_DGRAM, ("10.0.2.2", 4000))
    for size in (0, 18, 100, 1472):
        data = os.urandom(size)
        datagram = ether / scapy.IP(src="10.0.1.2", dst="10.0.2.2") / scapy.UDP(sport=5000, dport=4000) / data
        peer.send(tagged(datagram, tags))
        came, sender = echo.recvfrom(2048)
        assert (came, sender) == (data, ("10.0.1.2", 5000))
        echo.sendto(data[::-1], sender)
        back = at_ip(peer.wait_for(at_ip, "the datagram back"))
        assert bytes(back[scapy.UDP].payload)[:size] == data[::-1] and back.ttl == 63
        checksum = back[scapy.UDP].chksum
        del back[scapy.UDP].chksum
        assert scapy.IP(bytes(back))[scapy.UDP].chksum == checksum

    # One whose time is up.
    peer.send(tagged(ether / scapy.IP(src="10.0.1.2", dst="10.0.2.2", ttl=1) / scapy.UDP(dport=9), tags))
    exceeded = at_ip(peer.wait_for(at_ip, "time exceeded"))
    assert (exceeded.src, exceeded[scapy.ICMP].type) == ("10.0.1.1", 11)

    # Pinged by the router, which asks the peer's address first.
    counters = router.counters(name)
    assert counters["rx_packets"] == 7 and counters["tx_packets"] >= 7
    assert router.counters("e0")["rx_packets"] == 7


@pytest.mark.parametrize("tpid", (DOT1Q, DOT1AD))
def test_priority_tags_name_no_vlan(lab, driver, tpid):
    """A tag with identifier 0 only tells a priority: the frame is as good as untagged."""
    router, peer, _, _, station = trunk(lab, driver, "7 untagged")
    router.cli(f"ip neighbor e0.7 10.0.1.2 {PEER_MAC}")
    ping = scapy.Ether(src=PEER_MAC, dst=station) / scapy.IP(src="10.0.1.2", dst="10.0.1.1") / scapy.ICMP()
    peer.send(tagged(ping, [(tpid, 0)], priority=6))
    reply = peer.wait_for(lambda frame: frame[12:14] == b"\x08\x00", "the echo reply")
    assert scapy.Ether(reply)[scapy.ICMP].type == 0


def test_frames_go_to_whom_they_belong_or_are_counted_by_name(lab, driver):
    router, peer, _, name, station = trunk(lab, driver, "100")
    for command in ("create sub-interfaces e0 5 dot1q 200 inner-dot1q any", "create sub-interfaces e0 9 default"):
        router.cli(command)
    router.cli("set interface state e0.9 up")
    frame = scapy.Ether(src=PEER_MAC, dst=station) / scapy.IP(src="10.0.1.2", dst="10.0.2.2") / scapy.UDP()
    for tags, reason in (
        ([(DOT1Q, 200), (DOT1Q, 7)], "subinterface down"),
        ([(DOT1Q, 100), (DOT1Q, 7), (DOT1Q, 8)], "more than two vlan tags"),
        ([(DOT1Q, 4095)], "unknown vlan"),
        ([(DOT1Q, 321)], "ip4 not enabled"),  # the default one's, which can have no address
        ([], "ip4 not enabled"),
    ):
        before = router.errors().get(reason, 0)
        peer.send(tagged(frame, tags))
        wait_until(lambda: router.errors().get(reason, 0) == before + 1, f"one more '{reason}'")
    assert router.counters("e0.9")["rx_packets"] == 1
    with pytest.raises(CommandFailed, match="e0.100 takes those frames already"):
        router.cli("create sub-interfaces e0 6 dot1q 100")
    assert name == "e0.100"


@pytest.mark.parametrize("kind", ("dot1q", "qinad"))
def test_tcp_in_large_pieces_crosses_a_trunk_between_two_routers(lab, driver, kind):
    """h1 -- [router a] == tagged == [router b] -- h2: what hosts leave to their devices is done behind
    the tags as well."""
    command, _ = KINDS[kind]
    a, b = lab.router(), lab.router()
    h1, h2 = lab.host("h1"), lab.host("h2")
    a.attach(h1, "e0", driver, "10.0.1.2/24")
    b.attach(h2, "e0", driver, "10.0.2.2/24")
    a.host.ip("link", "add", "wire", "type", "veth", "peer", "name", "wire", "netns", b.host.namespace)
    for router, here, there in ((a, 1, 2), (b, 2, 1)):
        router.cli("create host-interface wire name e1")
        router.cli("set interface state e1 up")
        make_room(router, "e1", router.host, "wire")
        name = router.cli(f"create sub-interfaces e1 {command}").strip()
        router.cli(f"set interface ip address {name} 10.0.12.{here}/24")
        router.cli(f"set interface ip address e0 10.0.{here}.1/24")
        router.cli(f"set interface state {name} up")
        router.cli("set interface state e0 up")
        router.cli(f"ip route add 10.0.{there}.0/24 via 10.0.12.{there}")
    for number, host in ((1, h1), (2, h2)):
        host.ip("route", "add", "default", "via", f"10.0.{number}.1")
    # The wire has a carrier when both ends are up, and each router sees that when it looks.
    wait_until(lambda: h1.reaches("10.0.2.2", count=1), "the trunk carries", seconds=10)
    assert h1.reaches("10.0.2.2", "-s", "1472", "-M", "do")
    data = os.urandom(3_000_000)
    assert transfer(h1, h2, "10.0.2.2", data) == data
    assert transfer(h2, h1, "10.0.1.2", data) == data
    assert h1.counter("TcpInCsumErrors") == h2.counter("TcpInCsumErrors") == 0
    # They came in pieces larger than the wire takes, or the test would show nothing; past the network stack none does.
    assert driver == "af_xdp" or a.counters("e0")["rx_bytes"] / a.counters("e0")["rx_packets"] > 1600
