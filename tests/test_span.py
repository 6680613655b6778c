"""SPAN: a third host sees what passes an interface, both ways, to the byte."""

import socket

import pytest
from scapy.layers.inet import ICMP, IP, TCP
from scapy.layers.l2 import Ether

from lab import wait_until


@pytest.fixture
def listened(two_hosts, lab, driver):
    """h1 -- e0 [router] e1 -- h2, and a host that listens behind e2."""
    router, h1, h2 = two_hosts
    ear = lab.host("ear")
    router.attach(ear, "e2", driver, None)
    if driver != "tap":
        ear.ip("link", "set", "eth0", "up")
    router.cli("set interface state e2 up")
    return router, h1, h2, ear


def frames(opened, wanted, count):
    """The next frames of a socket that are wanted."""
    found = []
    while len(found) < count:
        frame = opened.recv(65536)
        if wanted(frame):
            found.append(frame)
    return found


def is_echo(frame):
    return frame[12:14] == b"\x08\x00" and frame[23] == socket.IPPROTO_ICMP


def test_both_directions_of_a_ping_reach_the_listener_as_they_were(listened):
    router, h1, _, ear = listened
    assert h1.reaches("10.0.2.2", count=1)
    router.cli("set interface span e0 destination e2 both")
    heard, on_wire = ear.frames(), h1.frames()
    assert h1.reaches("10.0.2.2", count=5)
    copies, originals = frames(heard, is_echo, 10), frames(on_wire, is_echo, 10)
    # What h1 sent and received is what the listener got: every byte of every frame.
    assert sorted(copies) == sorted(originals)
    requests = [Ether(frame) for frame in copies if Ether(frame)[ICMP].type == 8]
    replies = [Ether(frame) for frame in copies if Ether(frame)[ICMP].type == 0]
    assert [frame[ICMP].seq for frame in requests] == [frame[ICMP].seq for frame in replies] == [1, 2, 3, 4, 5]
    # As received, not yet routed; as sent, routed already.
    assert {frame[IP].ttl for frame in requests} == {64} and {frame[IP].ttl for frame in replies} == {63}
    assert "e0                               e2                               (  both) (  none)" in router.cli(
        "show interface span"
    )
    router.cli("set interface span e0 disable")
    before = router.counters("e2")["tx_packets"]
    assert h1.reaches("10.0.2.2", count=2)
    assert router.counters("e2")["tx_packets"] == before


def test_arp_is_mirrored_too(listened):
    router, h1, _, ear = listened
    router.cli("set interface span e0 destination e2 both")
    heard = ear.frames()
    h1.ip("neigh", "flush", "dev", "eth0")
    assert h1.reaches("10.0.1.1", count=1)
    arp = frames(heard, lambda frame: frame[12:14] == b"\x08\x06", 2)
    assert [frame[21] for frame in arp] == [1, 2], "the request and its reply"


def test_a_mirrored_tcp_stream_can_be_put_together_again(listened):
    router, h1, h2, ear = listened
    router.cli("set interface span e0 destination e2 rx")
    heard = ear.frames()
    data = bytes(range(256)) * 40
    server = h2.socket(socket.SOCK_STREAM, ("10.0.2.2", 5000))
    server.listen()
    client = h1.socket(socket.SOCK_STREAM)
    client.connect(("10.0.2.2", 5000))
    taken, _ = server.accept()
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    received = b""
    while piece := taken.recv(65536):
        received += piece
    taken.close()
    assert received == data
    # The listener can put the stream together from what it got.
    stream = {}
    while sum(map(len, stream.values())) < len(data):
        frame = heard.recv(65536)
        if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
            continue
        packet = Ether(frame)[IP]
        segment = bytes(packet[TCP].payload)[: packet.len - 4 * packet.ihl - 4 * packet[TCP].dataofs]
        if segment:
            stream[packet[TCP].seq] = segment
    assert b"".join(stream[seq] for seq in sorted(stream)) == data


def test_a_listener_that_goes_away_is_no_harm(listened):
    router, h1, _, _ = listened
    router.cli("set interface span e0 destination e2 both")
    router.cli("set interface state e2 down")
    assert h1.reaches("10.0.2.2", count=5)
    wait_until(lambda: router.errors().get("interface is down", 0) >= 10, "copies are dropped by name")
    router.cli("delete interface e2")
    assert "e2" not in router.cli("show interface span")
    assert h1.reaches("10.0.2.2", count=5)
