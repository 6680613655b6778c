"""Linux hosts behind IPv6 routers: hops shown, path MTU learned, traffic, neighbours that disappear."""

import os
import re
import time

import pytest

from conftest import require
from lab import wait_until
from test_transport import iperf3, transfer

H2 = "2001:db8:2::2"


@pytest.fixture
def two_routers(lab):
    """h1 -- e0 [r1] core -- core [r2] e1 -- h2: 2001:db8:1::/64, 2001:db8:12::/64 and 2001:db8:2::/64."""
    routers, hosts = [lab.router(), lab.router()], []
    for number, (router, name) in enumerate(zip(routers, ("e0", "e1"), strict=True), 1):
        host = lab.host(f"h{number}")
        router.attach(host, name, "af_packet", None)
        host.speak_ip6(f"2001:db8:{number}::2/64", router=f"2001:db8:{number}::1")
        router.cli(f"set interface ip address {name} 2001:db8:{number}::1/64")
        router.cli(f"set interface state {name} up")
        hosts.append(host)
    first, second = routers
    first.attach(second.host, "core", "af_packet", None, interface="from-r1")
    second.cli("create host-interface from-r1 name core")
    for number, router in enumerate(routers, 1):
        router.cli(f"set interface ip address core 2001:db8:12::{number}/64")
        router.cli("set interface state core up")
        other = 3 - number
        router.cli(f"ip route add 2001:db8:{other}::/64 via 2001:db8:12::{other}")
    for router in routers:
        router.wait_for_addresses6()
    return (*routers, *hosts)


def hops(host, address, *options):
    """What traceroute shows, a host a line."""
    require("traceroute")
    shown = host.run("traceroute", "-6", "-n", "-q", 2, "-w", 2, *options, address).stdout.splitlines()[1:]
    assert not any("!" in line for line in shown), shown
    return [line.split()[1] for line in shown]


def learned(host, address):
    """The length of packets that a host has learned for an address; none when it has not."""
    found = re.search(r"\bmtu (\d+)", host.ip("-6", "route", "get", address))
    return int(found.group(1)) if found else None


@pytest.mark.parametrize("way", ["-U", "-I", "-T"])
def test_traceroute_shows_the_router_then_the_host(two_hosts6, way):
    _, h1, h2 = two_hosts6
    # Linux answers few closed ports a second.
    h2.set("net/ipv6/icmp/ratelimit", 0)
    assert hops(h1, H2, way) == ["2001:db8:1::1", H2]
    # The router itself is a host like any other.
    assert hops(h1, "2001:db8:2::1", way) == ["2001:db8:2::1"]


def test_traceroute_shows_two_routers_by_where_packets_came_in(two_routers):
    _, _, h1, h2 = two_routers
    assert h1.reaches(H2)
    assert hops(h1, H2) == ["2001:db8:1::1", "2001:db8:12::2", H2]
    assert hops(h2, "2001:db8:1::2") == ["2001:db8:2::1", "2001:db8:12::1", "2001:db8:1::2"]


@pytest.mark.parametrize("direction", ["there", "back"])
def test_iperf3_tcp_passes(two_hosts6, direction):
    router, h1, h2 = two_hosts6
    report = iperf3(h1, h2, H2, *(["--reverse"] if direction == "back" else []))
    received = report["sum_received"]["bytes"]
    assert received > 1_000_000
    assert router.counters("e0" if direction == "there" else "e1")["rx_bytes"] > received


def test_iperf3_udp_passes(two_hosts6):
    _, h1, h2 = two_hosts6
    report = iperf3(h1, h2, H2, "--udp", "--bitrate", "20M", "--length", 1400)
    assert report["sum"]["packets"] > 1000
    assert report["sum"]["lost_packets"] < report["sum"]["packets"]


def test_tcp_finds_a_narrower_link_in_either_direction(two_routers):
    first, second, h1, h2 = two_routers
    first.cli("set interface mtu ip6 1400 core")
    second.cli("set interface mtu ip6 1300 core")
    data = os.urandom(500_000)
    assert transfer(h1, h2, H2, data) == data
    assert transfer(h2, h1, "2001:db8:1::2", data) == data
    assert (learned(h1, H2), learned(h2, "2001:db8:1::2")) == (1400, 1300)
    assert first.errors()["ICMPv6 packet too big sent"] >= 1
    assert second.errors()["ICMPv6 packet too big sent"] >= 1
    # Segments that fit: none is cut on its way.
    assert h2.counter("Ip6ReasmReqds") == 0 and h1.counter("Ip6FragCreates") == 0


def is_solicitation(frame, of):
    """Whether a frame is a neighbour solicitation sent to one host alone."""
    return frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 135 and frame[:6] == of


def flags(router, address):
    """What `show ip6 neighbors` says of a neighbour."""
    lines = [line.split() for line in router.cli("show ip6 neighbors").splitlines()]
    return next((line[2] for line in lines if line[1:2] == [address]), "")


@pytest.mark.slow
def test_a_neighbour_that_goes_away_is_asked_and_given_up_and_found_again(two_hosts6):
    router, h1, h2 = two_hosts6
    assert h1.reaches(H2)
    assert H2 in router.cli("show ip6 neighbors")
    mac = bytes.fromhex(h2.mac().replace(":", ""))
    wire = h2.frames(timeout=0.2)
    # It is silent from now on, though its link stays up.
    h2.set("net/ipv6/conf/eth0/disable_ipv6", 1)
    router.cli("set ip neighbor-config ip6 reachable-time 1")
    # It is used, so it is asked (RFC 4861 7.3.3), long before it is old.
    wait_until(lambda: flags(router, H2) == "DO", "it is doubted")
    h1.ping(H2, count=1, wait=1)
    assert flags(router, H2) == "DW"
    wait_until(lambda: flags(router, H2) == "DA", "it is asked", seconds=15)
    wait_until(lambda: flags(router, H2) == "", "it is given up", seconds=15)
    asked, end = 0, time.monotonic() + 5
    while time.monotonic() < end:
        try:
            asked += is_solicitation(wire.recv(2048), mac)
        except TimeoutError:
            break
    assert asked == 3, "a neighbour that was known is asked by itself (RFC 4861 7.3.3)"
    shown = h1.ping(H2, count=1, wait=6).stdout
    assert "Destination unreachable: Address unreachable" in shown, shown
    h2.speak_ip6(f"{H2}/64", router="2001:db8:2::1")
    wait_until(lambda: h1.reaches(H2, count=1, wait=1), "it is found again", seconds=15)
