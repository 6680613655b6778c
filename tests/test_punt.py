"""Punting: the host serves what the router does not take, under the router's own addresses."""

import json
import socket
import threading
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM

import pytest

from conftest import require
from lab import wait_until


@pytest.fixture
def served(lab):
    """h1 -- e0 [router] e1 -- h2, and the host: a namespace behind tap0 that has the router's addresses."""
    router, h1, h2 = lab.two_hosts("tap")
    host = lab.host("host")
    router.attach(host, "tap0", "tap", "192.0.2.2/30")
    router.cli("set interface ip address tap0 192.0.2.1/30")
    router.cli("set interface state tap0 up")
    for address in ("10.0.1.1", "10.0.2.1"):
        host.ip("address", "add", f"{address}/32", "dev", "lo")
    host.ip("route", "add", "default", "via", "192.0.2.1")
    router.cli("ip punt redirect add rx all via 192.0.2.2 tap0")
    return router, h1, h2, host


def serve(host, data, family=AF_INET):
    """A server in the host that says `data` to whoever connects to its port 22 and takes what it is told."""
    listener = host.socket(SOCK_STREAM, ("" if family == AF_INET else "::", 22), family=family)
    listener.listen()
    heard = []

    def answer():
        while True:
            try:
                caller, address = listener.accept()
            except OSError:
                return
            with caller:
                caller.settimeout(10)
                caller.sendall(data)
                caller.shutdown(socket.SHUT_WR)
                received = b""
                while part := caller.recv(65536):
                    received += part
                heard.append((address[0], received))

    listener.settimeout(30)
    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return heard


def ask(client, address, data):
    """What the server says, while it is told `data`."""
    caller = client.socket(SOCK_STREAM, timeout=10, family=AF_INET6 if ":" in address else AF_INET)
    caller.connect((address, 22))
    said = bytearray()

    def read():
        while part := caller.recv(65536):
            said.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    caller.sendall(data)
    caller.shutdown(socket.SHUT_WR)
    reader.join(20)
    return bytes(said)


def test_the_host_serves_tcp_under_the_routers_address(served):
    router, h1, h2, host = served
    said, told = b"SSH-2.0-test\r\n" + bytes(200_000), bytes(range(256)) * 800
    heard = serve(host, said)
    assert ask(h1, "10.0.1.1", told) == said
    assert ask(h2, "10.0.2.1", told) == said
    wait_until(lambda: len(heard) == 2, "the server has heard both")
    assert heard == [("10.0.1.2", told), ("10.0.2.2", told)]
    assert router.counters("e0")["punt"] > 0
    # The router's own services stay with it.
    assert h1.reaches("10.0.1.1", count=2)
    assert router.errors()["echo replies sent"] >= 2
    assert "TCP resets sent" not in router.errors()


def test_a_closed_port_is_refused_by_the_host_and_without_it_by_the_router(served):
    router, h1, _, host = served
    before = host.counter("TcpOutRsts")

    def refused():
        with pytest.raises(ConnectionRefusedError):
            h1.socket(SOCK_STREAM).connect(("10.0.1.1", 4000))

    refused()
    assert host.counter("TcpOutRsts") == before + 1
    router.cli("ip punt redirect del rx all")
    refused()
    assert host.counter("TcpOutRsts") == before + 1
    assert router.errors()["TCP resets sent"] == 1


def test_the_host_answers_udp_and_sends_port_unreachable(served):
    _, h1, _, host = served
    service = host.socket(SOCK_DGRAM, ("0.0.0.0", 4000))
    asker = h1.socket(SOCK_DGRAM)
    asker.connect(("10.0.1.1", 4000))
    asker.send(b"hello")
    data, address = service.recvfrom(100)
    assert (data, address[0]) == (b"hello", "10.0.1.2")
    # A socket that is bound to all addresses answers from the one that was asked.
    answerer = host.socket(SOCK_DGRAM, ("10.0.1.1", 4001))
    answerer.sendto(b"you too", address)
    other = h1.socket(SOCK_DGRAM)
    other.connect(("10.0.1.1", 4002))
    other.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        other.recv(10)


def test_the_path_mtu_reaches_the_host(served):
    """ICMP about the host's own connections goes to the host: it sends smaller segments."""
    router, h1, _, host = served
    router.cli("set interface mtu packet 1000 e0")
    said = bytes(range(256)) * 2000
    serve(host, said)
    assert ask(h1, "10.0.1.1", b"x") == said


def test_interfaces_can_have_ways_of_their_own(lab, served):
    router, h1, h2, host = served
    other = lab.host("other")
    router.attach(other, "tap1", "tap", "192.0.2.6/30")
    router.cli("set interface ip address tap1 192.0.2.5/30")
    router.cli("set interface state tap1 up")
    other.ip("address", "add", "10.0.2.1/32", "dev", "lo")
    other.ip("route", "add", "default", "via", "192.0.2.5")
    router.cli("ip punt redirect add rx e1 via 192.0.2.6 tap1")
    shown = json.loads(router.cli("show ip punt redirect", json_format=True))["redirects"]
    assert [(way["rx"], way["next_hop"], way["tx"]) for way in shown] == [
        ("all", "192.0.2.2", "tap0"),
        ("e1", "192.0.2.6", "tap1"),
    ]
    serve(host, b"first")
    serve(other, b"second")
    assert (ask(h1, "10.0.1.1", b"x"), ask(h2, "10.0.2.1", b"x")) == (b"first", b"second")


def test_a_flood_of_segments_is_bounded_on_its_way_to_the_host(served):
    require("nping")
    router, h1, h2, host = served
    router.cli("set ip punt rate 100")
    heard = serve(host, b"still here")
    flood = h1.start("nping", "--tcp", "-p", "1-1000", "--flags", "syn", "--rate", 5000, "-c", 4, "-q", "10.0.1.1")
    assert h2.reaches("10.0.1.2", count=20)
    flood.wait(timeout=60)
    wait_until(lambda: router.errors().get("punted packets limited by rate"), "the flood is limited")
    assert ask(h2, "10.0.2.1", b"x") == b"still here"
    wait_until(lambda: heard, "the server has heard")
