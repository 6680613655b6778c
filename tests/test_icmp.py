"""What senders are told of packets that go no further."""

import errno
import json
import re
import time
from socket import SOCK_DGRAM, SOCK_STREAM

import pytest

from conftest import require
from lab import wait_until


def test_traceroute_shows_the_router_then_the_host(two_hosts):
    require("traceroute")
    _, h1, _ = two_hosts
    shown = h1.run("traceroute", "-n", "-q", 2, "-w", 2, "10.0.2.2").stdout.splitlines()[1:]
    hops = [line.split()[1] for line in shown]
    assert hops == ["10.0.1.1", "10.0.2.2"]


@pytest.mark.parametrize("way", ["-U", "-I", "-T"])
def test_every_kind_of_traceroute_shows_the_router(two_hosts, way):
    """-e shows extensions (RFC 4884) as well: there are none, and none are made out of the quote."""
    require("traceroute")
    _, h1, h2 = two_hosts
    # Linux answers few closed ports a second.
    h2.set("net/ipv4/icmp_ratelimit", 0)
    for size in (60, 600):
        size = () if way == "-T" else (size,)
        shown = h1.run("traceroute", "-n", "-e", "-q", 2, "-w", 2, way, "10.0.2.2", *size).stdout.splitlines()[1:]
        assert [line.split()[1] for line in shown] == ["10.0.1.1", "10.0.2.2"], shown
        assert not any("<" in line or "!" in line for line in shown), shown


@pytest.mark.parametrize("way", [(), ("--udp",), ("--tcp",)])
def test_mtr_shows_the_router(two_hosts, way):
    require("mtr")
    _, h1, _ = two_hosts
    shown = h1.run("mtr", "-n", "-e", "--json", "-c", 5, "-i", 0.2, "-G", 1, *way, "10.0.2.2", timeout=60).stdout
    hops = json.loads(shown)["report"]["hubs"]
    assert [(hop["host"], hop["Loss%"]) for hop in hops] == [("10.0.1.1", 0), ("10.0.2.2", 0)], shown


def test_a_used_up_ttl_is_reported_by_the_near_address(two_hosts):
    router, h1, _ = two_hosts
    shown = h1.ping("10.0.2.2", "-t", 1, count=1).stdout
    assert "From 10.0.1.1 icmp_seq=1 Time to live exceeded" in shown
    assert h1.reaches("10.0.2.2", "-t", 2, count=1)


def test_an_absent_host_is_reported_by_the_router(two_hosts):
    _, h1, _ = two_hosts
    start = time.monotonic()
    shown = h1.ping("10.0.2.99", count=1, wait=6).stdout
    assert "From 10.0.1.1 icmp_seq=1 Destination Host Unreachable" in shown
    # Three requests, a second apart.
    assert 2 < time.monotonic() - start < 4.5


def test_a_destination_without_a_route_is_reported(two_hosts):
    _, h1, _ = two_hosts
    assert "From 10.0.1.1 icmp_seq=1 Destination Net Unreachable" in h1.ping("192.0.2.1", count=1).stdout


def test_an_unreachable_route_is_reported(two_hosts):
    router, h1, _ = two_hosts
    router.cli("ip route add 192.0.2.0/24 via unreachable")
    assert "From 10.0.1.1 icmp_seq=1 Destination Host Unreachable" in h1.ping("192.0.2.1", count=1).stdout


def test_a_drop_route_is_silent(two_hosts):
    router, h1, _ = two_hosts
    router.cli("ip route add 192.0.2.0/24 via drop")
    shown = h1.ping("192.0.2.1", count=3, wait=0.5).stdout
    assert "3 packets transmitted, 0 received, 100% packet loss" in shown and "From" not in shown
    assert router.errors()["blackholed packets"] == 3


def test_a_closed_port_of_the_router_is_reported(two_hosts):
    _, h1, _ = two_hosts
    knocking = h1.socket(SOCK_DGRAM)
    knocking.connect(("10.0.1.1", 4000))
    knocking.send(b"anybody?")
    with pytest.raises(ConnectionRefusedError):
        knocking.recv(10)


def test_a_packet_over_the_mtu_that_must_not_be_cut_is_reported_with_the_mtu(two_hosts):
    router, h1, _ = two_hosts
    router.cli("set interface mtu packet 1000 e1")
    assert h1.reaches("10.0.2.2", "-M", "do", "-s", 972, count=1)
    shown = h1.ping("10.0.2.2", "-M", "do", "-s", 973, count=1).stdout
    assert re.search(r"From 10\.0\.1\.1 icmp_seq=1 Frag needed and DF set \(mtu = 1000\)", shown), shown


def test_a_host_learns_the_mtu(two_hosts):
    router, h1, _ = two_hosts
    router.cli("set interface mtu packet 1000 e1")
    sender = h1.socket(SOCK_DGRAM)
    sender.setsockopt(0, 10, 2)  # IP_MTU_DISCOVER: always
    sender.connect(("10.0.2.2", 4000))
    sender.send(bytes(1400))

    def refused():
        try:
            sender.send(bytes(1400))
        except OSError as error:
            return error.errno == errno.EMSGSIZE
        return False

    wait_until(refused, "the host knows the path's MTU")
    assert sender.getsockopt(0, 14) == 1000  # IP_MTU


def test_errors_are_limited_in_rate(lab):
    """RFC 1812 4.3.2.8: a flood of packets without a route is not answered one by one."""
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.1.1", count=1)
    sender = h1.socket(SOCK_DGRAM)
    start = time.monotonic()
    for _ in range(3000):
        sender.sendto(b"flood", ("192.0.2.1", 4000))
    passed = time.monotonic() - start
    wait_until(lambda: router.errors().get("ICMP errors limited by rate"), "errors are limited")
    # Not all have come: the wire's queue is short.
    assert router.errors()["ICMP net unreachable sent"] < 100 + 1000 * (passed + 0.5)


def test_no_error_is_sent_about_an_error(lab):
    """RFC 1812 4.3.2.7. An ICMP error to a destination without a route dies here."""
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.1.1", count=1)
    h1.run(
        "/usr/bin/python3",
        "-c",
        (
            "import socket\n"
            "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\n"
            "s.sendto(bytes.fromhex('0300fcff00000000'), ('192.0.2.1', 0))\n"
        ),
    )
    wait_until(lambda: router.errors().get("no ICMP error about an ICMP error"), "the error is counted")


def test_a_closed_tcp_port_of_the_router_refuses(two_hosts):
    router, h1, _ = two_hosts
    with pytest.raises(ConnectionRefusedError):
        h1.socket(SOCK_STREAM).connect(("10.0.1.1", 4000))
    assert router.errors()["TCP resets sent"] == 1


@pytest.mark.parametrize(
    "flood, limited",
    [
        (("--udp", "-p", "4000"), "ICMP errors limited by rate"),
        (("--tcp", "-p", "4000", "--flags", "syn"), "TCP resets limited by rate"),
        (("--icmp", "--ttl", "1"), "ICMP errors limited by rate"),
        (("--icmp",), None),
    ],
)
def test_a_flood_is_bounded_and_others_do_not_feel_it(lab, flood, limited):
    """RFC 1812 4.3.2.8. Echo is answered without limit: no answer is larger than its request."""
    require("nping")
    router, h1, h2 = lab.two_hosts("tap")
    router.cli("set ip icmp error-rate 100 burst 10")
    target = "10.0.2.2" if "--ttl" in flood else "10.0.1.1"
    assert h1.reaches("10.0.2.2", count=1)
    start = time.monotonic()
    flooding = h1.start("nping", "-q", "-N", "--rate", 20000, "-c", 20000, *flood, target, stdout=-3)
    reached = h2.reaches("10.0.1.2", count=20)
    flooding.wait(timeout=60)
    passed = time.monotonic() - start
    assert reached
    # Not all have come: the wire's queue is short.
    received = router.counters("e0")["rx_packets"]
    errors = router.errors()
    assert received > 2000, received
    if limited is None:
        assert errors["echo replies sent"] >= received - 100
        return
    names = [
        name for name in errors if name.startswith("ICMP ") and name.endswith(" sent") or name == "TCP resets sent"
    ]
    answered = sum(errors[name] for name in names)
    assert 10 <= answered <= 10 + 100 * (passed + 1), errors
    assert answered + errors[limited] >= received - 100, errors


def redirecting(lab):
    """h1 and h3 on one network with the router."""
    router, switch = lab.router(), lab.host("switch")
    router.attach(switch, "e0", "tap", None, interface="port0")
    router.cli("set interface ip address e0 10.0.1.1/24")
    router.cli("set interface state e0 up")
    switch.ip("link", "add", "br0", "type", "bridge")
    hosts = []
    for number in (1, 3):
        host = lab.host(f"h{number}")
        host.ip("link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}", "netns", switch.namespace)
        host.ip("address", "add", f"10.0.1.{number + 1}/24", "dev", "eth0")
        host.ip("link", "set", "eth0", "up")
        hosts.append(host)
    for port in ("port0", "port1", "port3", "br0"):
        if port != "br0":
            switch.ip("link", "set", port, "master", "br0")
        switch.ip("link", "set", port, "up")
    return (router, *hosts)


def test_a_host_heeds_a_redirect(lab):
    """What h1 sends to behind h3 it sends there itself, once told."""
    router, h1, h3 = redirecting(lab)
    h1.ip("route", "add", "default", "via", "10.0.1.1")
    h3.ip("address", "add", "60.0.0.1/32", "dev", "lo")
    for scope in ("all", "eth0"):
        h1.set(f"net/ipv4/conf/{scope}/accept_redirects", 1)
    router.cli("ip route add 60.0.0.0/8 via 10.0.1.4")
    # Unless it is told to, the router does not tell; the packets go by it both times.
    assert h1.reaches("60.0.0.1", count=2)
    assert "ICMP redirect sent" not in router.errors()
    assert " via 10.0.1.1 " in h1.ip("route", "get", "60.0.0.1")
    router.cli("set interface ip redirects e0 enable")
    assert "Redirect Host(New nexthop: 10.0.1.4)" in h1.ping("60.0.0.1", count=2).stdout
    # Linux heeds a redirect when it knows the new next hop's Ethernet address, and asks for it when it does not.
    wait_until(
        lambda: h1.reaches("60.0.0.1", count=1) and " via 10.0.1.4 " in h1.ip("route", "get", "60.0.0.1"),
        "the host has learned the next hop",
        seconds=15,
    )
    before = router.counters("e0")
    assert h1.reaches("60.0.0.1", count=5)
    assert router.counters("e0")["rx_packets"] - before["rx_packets"] < 5


def test_a_host_heeds_a_redirect_of_ipv6(lab):
    """The same; hosts know routers by their link-local addresses."""
    router, h1, h3 = redirecting(lab)
    router.cli("set interface ip address e0 2001:db8:1::1/64")
    router.cli("set ip6 link-local address e0 fe80::1")
    h1.speak_ip6("2001:db8:1::2/64")
    h1.ip("-6", "route", "add", "default", "via", "fe80::1", "dev", "eth0")
    h3.speak_ip6("2001:db8:1::4/64")
    h3.ip("address", "add", "fe80::4/64", "dev", "eth0", "nodad")
    h3.speak_ip6("2001:db8:60::1/128", "lo")
    for scope in ("all", "eth0"):
        h1.set(f"net/ipv6/conf/{scope}/accept_redirects", 1)
    router.cli("ip route add 2001:db8:60::/48 via fe80::4 e0")
    assert h1.reaches("2001:db8:60::1", count=2)
    assert "ICMPv6 redirect sent" not in router.errors()
    assert " via fe80::1 " in h1.ip("route", "get", "2001:db8:60::1")
    router.cli("set interface ip6 redirects e0 enable")
    wait_until(
        lambda: h1.reaches("2001:db8:60::1", count=1) and " via fe80::4 " in h1.ip("route", "get", "2001:db8:60::1"),
        "the host has learned the next hop",
        seconds=15,
    )
    before = router.counters("e0")
    assert h1.reaches("2001:db8:60::1", count=5)
    assert router.counters("e0")["rx_packets"] - before["rx_packets"] < 5
