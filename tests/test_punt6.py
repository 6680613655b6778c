"""IPv6 packets to the router that no node of it handles: refused at once, or served by the host."""

import errno
import socket
from socket import AF_INET6, SOCK_DGRAM, SOCK_STREAM

import pytest

from lab import wait_until
from test_punt import ask, serve

US, US2 = "2001:db8:1::1", "2001:db8:2::1"


@pytest.fixture
def served(lab):
    """h1 -- e0 [router] e1 -- h2, and the host: a namespace behind tap0 that has the router's addresses."""
    router, h1, h2 = lab.two_hosts6("tap")
    host = lab.host("host")
    router.attach(host, "tap0", "tap", None)
    host.speak_ip6("2001:db8:9::2/64")
    router.cli("set interface ip address tap0 2001:db8:9::1/64")
    router.cli("set interface state tap0 up")
    for address in (US, US2):
        host.speak_ip6(f"{address}/128", "lo")
    host.ip("-6", "route", "add", "default", "via", "2001:db8:9::1")
    router.wait_for_addresses6()
    router.cli("ip6 punt redirect add rx all via 2001:db8:9::2 tap0")
    return router, h1, h2, host


def is_refused(client, address, kind=SOCK_STREAM, scope=0):
    """Whether a port is refused, and not by a timeout."""
    asker = client.socket(kind, family=AF_INET6)
    with pytest.raises(ConnectionRefusedError):
        asker.connect((address, 4000, 0, scope))
        asker.send(b"anybody?")
        asker.recv(10)
    return True


def test_the_router_refuses_what_nobody_listens_to(two_hosts6):
    router, h1, h2 = two_hosts6
    assert is_refused(h1, US) and is_refused(h1, US2) and is_refused(h2, US)
    assert router.errors()["TCP resets sent"] == 3
    assert is_refused(h1, US, SOCK_DGRAM)
    assert router.errors()["ICMPv6 port unreachable sent"] == 1
    assert h1.counter("TcpInErrs") == 0 and h1.counter("TcpInCsumErrors") == 0


def test_the_router_refuses_on_its_link_only_address(two_hosts6):
    router, h1, _ = two_hosts6
    address = router.cli_json("show ip6 interface e0")["interfaces"][0]["link_local"]
    with h1.inside():
        link = socket.if_nametoindex("eth0")
    assert is_refused(h1, address, scope=link)
    assert is_refused(h1, address, SOCK_DGRAM, scope=link)
    assert router.errors()["TCP resets sent"] == 1


def test_a_protocol_that_nobody_knows_is_refused(two_hosts6):
    _, h1, _ = two_hosts6
    with h1.inside():
        asker = socket.socket(AF_INET6, socket.SOCK_RAW, 253)
    with asker:
        asker.settimeout(5)
        asker.connect((US, 0))
        asker.send(b"anybody?")
        # ICMPV6_UNK_NEXTHDR.
        with pytest.raises(OSError) as refused:
            asker.recv(100)
    assert refused.value.errno == errno.EPROTO


def test_the_host_serves_tcp_under_the_routers_address(served):
    router, h1, h2, host = served
    said, told = b"SSH-2.0-test\r\n" + bytes(200_000), bytes(range(256)) * 800
    heard = serve(host, said, AF_INET6)
    assert ask(h1, US, told) == said
    assert ask(h2, US2, told) == said
    wait_until(lambda: len(heard) == 2, "the server has heard both")
    assert heard == [("2001:db8:1::2", told), ("2001:db8:2::2", told)]
    assert router.counters("e0")["punt"] > 0
    # The router's own services stay with it.
    assert h1.reaches(US, count=2)
    assert router.errors()["echo replies sent"] >= 2
    assert "TCP resets sent" not in router.errors()


def test_a_closed_port_is_refused_by_the_host_and_without_it_by_the_router(served):
    router, h1, _, host = served
    before = host.counter("TcpOutRsts")
    assert is_refused(h1, US)
    assert host.counter("TcpOutRsts") == before + 1
    router.cli("ip6 punt redirect del rx all")
    assert is_refused(h1, US)
    assert host.counter("TcpOutRsts") == before + 1
    assert router.errors()["TCP resets sent"] == 1


def test_the_host_answers_udp_and_sends_port_unreachable(served):
    router, h1, _, host = served
    service = host.socket(SOCK_DGRAM, ("::", 4001), family=AF_INET6)
    asker = h1.socket(SOCK_DGRAM, family=AF_INET6)
    asker.connect((US, 4001))
    asker.send(b"hello")
    data, address = service.recvfrom(100)
    assert (data, address[0]) == (b"hello", "2001:db8:1::2")
    answerer = host.socket(SOCK_DGRAM, (US, 4002), family=AF_INET6)
    answerer.sendto(b"you too", address)
    assert is_refused(h1, US, SOCK_DGRAM)
    assert "ICMPv6 port unreachable sent" not in router.errors()


def test_the_path_mtu_reaches_the_host(served):
    """ICMPv6 about the host's own connections goes to the host: it sends smaller segments."""
    router, h1, _, host = served
    router.cli("set interface mtu ip6 1300 e0")
    said = bytes(range(256)) * 2000
    serve(host, said, AF_INET6)
    assert ask(h1, US, b"x") == said
    assert router.errors()["ICMPv6 packet too big sent"] >= 1


def test_the_way_may_be_to_a_link_local_address(served):
    router, h1, _, host = served
    host.ip("address", "add", "fe80::99/64", "dev", "eth0", "nodad")
    router.cli("ip6 punt redirect add rx all via fe80::99 tap0")
    serve(host, b"hello", AF_INET6)
    assert ask(h1, US, b"x") == b"hello"
