"""What senders are told of packets that go no further."""

import errno
import re
import time
from socket import SOCK_DGRAM

import pytest

from conftest import require
from lab import wait_until


def test_traceroute_shows_the_router_then_the_host(two_hosts):
    require("traceroute")
    _, h1, _ = two_hosts
    shown = h1.run("traceroute", "-n", "-q", 2, "-w", 2, "10.0.2.2").stdout.splitlines()[1:]
    hops = [line.split()[1] for line in shown]
    assert hops == ["10.0.1.1", "10.0.2.2"]


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
    limited = wait_until(lambda: router.errors().get("ICMP errors limited by rate"), "errors are limited")
    assert 3000 - limited < 100 + 1000 * (passed + 0.5)


def test_no_error_is_sent_about_an_error(lab):
    """RFC 1812 4.3.2.7. An ICMP error to a destination without a route dies here."""
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.1.1", count=1)
    h1.run("/usr/bin/python3", "-c", (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\n"
        "s.sendto(bytes.fromhex('0300fcff00000000'), ('192.0.2.1', 0))\n"
    ))
    wait_until(lambda: router.errors().get("no ICMP error about an ICMP error"), "the error is counted")
