"""A routing daemon says its routes by the Forwarding Plane Manager's protocol: a client of our own, and FRR."""

import ipaddress
import socket
import struct
import subprocess
import time

import pytest

from lab import CommandFailed, wait_until
from test_linux_nl import agrees

NEW_ROUTE, DELETE_ROUTE, NEW_HOP, DELETE_HOP = 24, 25, 104, 105
OFFLOADED, OFFLOAD_FAILED = 0x4000, 0x20000000
ZEBRA = 11


def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind, payload, flags=0x501):
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, 0, 0) + payload + bytes(-len(payload) % 4)


def number(value):
    return struct.pack("=I", value)


def address(text):
    return ipaddress.ip_address(text).packed


def route(prefix, *attributes, kind=NEW_ROUTE, metric=20):
    network = ipaddress.ip_network(prefix)
    family = socket.AF_INET if network.version == 4 else socket.AF_INET6
    head = struct.pack("=BBBBBBBBI", family, network.prefixlen, 0, 0, 254, ZEBRA, 0, 1, 0)
    rest = attribute(1, network.network_address.packed) + attribute(6, number(metric))
    return message(kind, head + rest + b"".join(attributes))


def via(gateway, link):
    return attribute(5, address(gateway)) + attribute(4, number(link))


def object_of(hop):
    return attribute(30, number(hop))


def hop(id, *attributes, kind=NEW_HOP):
    head = struct.pack("=BBBBI", socket.AF_INET, 0, ZEBRA, 0, 0)
    return message(kind, head + attribute(1, number(id)) + b"".join(attributes))


def group(id, *members):
    packed = [struct.pack("=IBBH", member, weight - 1, 0, 0) for member, weight in members]
    return hop(id, attribute(2, b"".join(packed)))


def hop_via(id, gateway, link):
    return hop(id, attribute(5, number(link)), attribute(6, address(gateway)))


def frame(*messages):
    all_of_them = b"".join(messages)
    return struct.pack(">BBH", 1, 1, 4 + len(all_of_them)) + all_of_them


class Daemon:
    """One that is connected, in a namespace."""

    def __init__(self, host):
        with host.inside():
            self.socket = socket.create_connection(("127.0.0.1", 2620), timeout=20)
        self.rest = b""

    def say(self, *messages):
        self.socket.sendall(frame(*messages))

    def answer(self):
        """The next route that the router says something of, and its flags."""
        while len(self.rest) < 4 or len(self.rest) < struct.unpack(">H", self.rest[2:4])[0]:
            heard = self.socket.recv(65536)
            assert heard, "the router closes the connection"
            self.rest += heard
        length = struct.unpack(">H", self.rest[2:4])[0]
        payload, self.rest = self.rest[20:length], self.rest[length:]
        flags = struct.unpack("=I", payload[8:12])[0]
        assert payload[5] == ZEBRA
        size = 4 if payload[0] == socket.AF_INET else 16
        return f"{ipaddress.ip_address(payload[16 : 16 + size])}/{payload[1]}", flags

    def answers(self, count):
        return dict(self.answer() for _ in range(count))


@pytest.fixture
def bench(lab):
    """h1 -- e0 [router] e1 -- h2, with addresses from Linux. Gives also the numbers of xe0 and xe1."""
    linux = lab.host("linux")
    router = lab.router(extra=f"fpm {{ listen 127.0.0.1:2620 netns {linux.namespace} hold-time 3 }}")
    hosts, links = [], []
    linux.ip("link", "set", "lo", "up")
    for number in (0, 1):
        host = lab.host(f"h{number + 1}")
        router.attach(host, f"e{number}", "tap", f"10.0.{number + 1}.2/24")
        host.ip("route", "add", "default", "via", f"10.0.{number + 1}.1")
        router.cli(f"lcp create e{number} host-if xe{number} netns {linux.namespace}")
        linux.ip("link", "set", f"xe{number}", "up")
        linux.ip("address", "add", f"10.0.{number + 1}.1/24", "dev", f"xe{number}")
        linux.speak_ip6(f"2001:db8:{number + 1}::1/64", f"xe{number}")
        hosts.append(host)
        links.append(int(linux.ip("-o", "link", "show", f"xe{number}").split(":")[0]))
    wait_until(lambda: agrees(router), "the router has the addresses")
    wait_until(lambda: fpm(router)["listens"], "daemons can connect")
    return router, linux, *hosts, links


def fpm(router):
    return router.cli_json("show fpm")


def has(router, prefix, source="fpm"):
    try:
        return source in router.cli(f"show {'ip6' if ':' in prefix else 'ip'} fib {prefix}")
    except CommandFailed:
        return False


def test_routes_that_a_daemon_says_forward_and_it_hears_so(bench):
    router, linux, h1, h2, (xe0, xe1) = bench
    daemon = Daemon(linux)
    h2.ip("address", "add", "198.51.100.1/32", "dev", "lo")
    daemon.say(route("198.51.100.0/24", via("10.0.2.2", xe1)), route("2001:db8:99::/48", via("2001:db8:2::2", xe1)))
    assert daemon.answers(2) == {"198.51.100.0/24": OFFLOADED, "2001:db8:99::/48": OFFLOADED}
    assert h1.reaches("198.51.100.1")
    assert has(router, "198.51.100.0/24") and has(router, "2001:db8:99::/48")
    # What is said again is answered again.
    daemon.say(route("198.51.100.0/24", via("10.0.2.2", xe1)))
    assert daemon.answer() == ("198.51.100.0/24", OFFLOADED)
    # It is not in Linux, and not in the saved configuration.
    assert "198.51.100" not in linux.ip("route", "show") and "198.51.100" not in router.cli("show running-config")
    # By next-hop objects and groups, whose members have weights. One that is not known yet holds its route back.
    daemon.say(route("203.0.113.0/24", object_of(12)))
    assert daemon.answer() == ("203.0.113.0/24", OFFLOAD_FAILED)
    daemon.say(hop_via(10, "10.0.2.2", xe1), hop_via(11, "10.0.1.2", xe0), group(12, (10, 3), (11, 1)))
    assert daemon.answer() == ("203.0.113.0/24", OFFLOADED)
    shown = router.cli("show ip fib 203.0.113.0/24")
    assert "10.0.2.2" in shown and "10.0.1.2" in shown, shown
    # A change comes as two messages of one frame, and is one change: no packet is lost.
    ping = h1.start("ping", "-q", "-i", "0.01", "-c", "200", "198.51.100.1", stdout=subprocess.PIPE)
    for metric in range(30, 60):
        old = route("198.51.100.0/24", kind=DELETE_ROUTE, metric=metric - 1)
        daemon.say(old, route("198.51.100.0/24", via("10.0.2.2", xe1), metric=metric))
        time.sleep(0.05)
    said = ping.communicate()[0]
    assert " 0% packet loss" in said, said
    daemon.say(route("192.0.2.0/24", via("10.0.2.2", xe1)))
    # Changes that came close together have one answer.
    answers = []
    while not answers or answers[-1] != ("192.0.2.0/24", OFFLOADED):
        answers.append(daemon.answer())
    assert set(answers[:-1]) == {("198.51.100.0/24", OFFLOADED)}
    daemon.say(route("198.51.100.0/24", kind=DELETE_ROUTE, metric=59))
    wait_until(lambda: not has(router, "198.51.100.0/24"), "the route is gone")
    # Its way goes: the daemon hears so.
    router.cli("lcp delete e1")
    assert daemon.answers(2) == {"2001:db8:99::/48": OFFLOAD_FAILED, "192.0.2.0/24": OFFLOAD_FAILED}
    counts = fpm(router)
    assert (counts["malformed"], counts["sessions"]) == (0, 1), counts


def test_a_daemon_goes_before_linux(bench):
    router, linux, h1, h2, (xe0, xe1) = bench
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.1.2")
    wait_until(lambda: has(router, "192.0.2.0/24", "lcp-rt"), "the route of Linux is there")
    daemon = Daemon(linux)
    daemon.say(route("192.0.2.0/24", via("10.0.2.2", xe1)))
    daemon.answer()
    assert "10.0.2.2" in router.cli("show ip fib 192.0.2.0/24")
    h2.ip("address", "add", "192.0.2.1/32", "dev", "lo")
    assert h1.reaches("192.0.2.1")
    daemon.say(route("192.0.2.0/24", kind=DELETE_ROUTE))
    wait_until(lambda: not has(router, "192.0.2.0/24"), "that of Linux is left")
    assert has(router, "192.0.2.0/24", "lcp-rt")
    assert agrees(router)


def test_routes_outlive_a_connection_and_those_that_are_not_said_again_go(bench):
    router, linux, h1, h2, (xe0, xe1) = bench
    h2.ip("address", "add", "198.51.100.1/32", "dev", "lo")
    first = Daemon(linux)
    first.say(route("198.51.100.0/24", via("10.0.2.2", xe1)), route("192.0.2.0/24", via("10.0.2.2", xe1)))
    first.answers(2)
    first.socket.close()
    wait_until(lambda: fpm(router)["peer"] is None, "the daemon is gone")
    assert h1.reaches("198.51.100.1")
    again = Daemon(linux)
    again.say(route("198.51.100.0/24", via("10.0.2.2", xe1)))
    assert again.answer() == ("198.51.100.0/24", OFFLOADED)
    for _ in range(3):
        again.socket.close()
        wait_until(lambda: fpm(router)["peer"] is None, "the daemon is gone")
        again = Daemon(linux)
        again.say(route("198.51.100.0/24", via("10.0.2.2", xe1)))
        assert again.answer() == ("198.51.100.0/24", OFFLOADED)
    wait_until(lambda: not has(router, "192.0.2.0/24"), "what was not said again is gone")
    assert has(router, "198.51.100.0/24") and fpm(router)["stale"] == 1
    # A second daemon is turned away.
    assert Daemon(linux).socket.recv(1) == b""
    again.socket.close()
    wait_until(lambda: not has(router, "198.51.100.0/24"), "nobody came again")


def test_what_is_no_frame_ends_the_connection_and_what_is_no_route_is_counted(bench):
    router, linux, h1, h2, (xe0, xe1) = bench
    daemon = Daemon(linux)
    daemon.say(message(NEW_ROUTE, b"\2"), message(99, b""), hop(0), route("198.51.100.0/24", b"\1\0\0\0"))
    # A time to live without a label is no reason to hold up other routes.
    encap = attribute(21, struct.pack("=H", 1)) + attribute(22, attribute(2, bytes([9])))
    daemon.say(route("10.97.0.0/16", attribute(4, number(xe1)), encap))
    assert daemon.answer() == ("10.97.0.0/16", OFFLOADED)
    # A route of another table, and one by an interface that is not the router's.
    daemon.say(route("10.99.0.0/16", via("10.0.2.2", xe1), attribute(15, number(77))))
    daemon.say(route("10.98.0.0/16", via("10.0.2.2", 999)))
    assert daemon.answer() == ("10.98.0.0/16", OFFLOAD_FAILED)
    counts = fpm(router)
    assert (counts["malformed"], counts["not_followed"]) == (3, 2), counts
    daemon.socket.sendall(b"\7garbage")
    assert daemon.socket.recv(1) == b""
    assert fpm(router)["malformed"] == 4 and fpm(router)["peer"] is None
    # A frame in pieces.
    daemon = Daemon(linux)
    for byte in frame(route("198.51.100.0/24", via("10.0.2.2", xe1))):
        daemon.socket.sendall(bytes([byte]))
    assert daemon.answer() == ("198.51.100.0/24", OFFLOADED)


def test_routes_of_a_table_wait_until_the_router_has_it(bench):
    router, linux, h1, h2, (xe0, xe1) = bench
    daemon = Daemon(linux)
    daemon.say(route("10.99.0.0/16", via("10.0.2.2", xe1), attribute(15, number(77))))
    daemon.say(route("10.98.0.0/16", via("10.0.2.2", xe1)))
    assert daemon.answer() == ("10.98.0.0/16", OFFLOADED)
    assert fpm(router)["not_followed"] == 1
    router.cli("ip table add 77")
    assert daemon.answer() == ("10.99.0.0/16", OFFLOADED)
    assert "fpm" in router.cli("show ip fib table 77 10.99.0.0/16")
    assert "10.99.0.0/16" not in router.cli("show ip fib table 0")
    # A table that went took its routes along. One of that number is as the daemon says.
    router.cli("ip table del 77")
    router.cli("ip table add 77")
    wait_until(lambda: "fpm" in router.cli("show ip fib table 77 10.99.0.0/16"), "the route is there again")
    daemon.say(route("10.99.0.0/16", attribute(15, number(77)), kind=DELETE_ROUTE))
    wait_until(lambda: "10.99" not in router.cli("show ip fib table 77"), "the route went")
