"""Packets longer than a link takes: cut by hosts, cut again by the router, put together by
hosts and by the router; and fragments sent to do harm."""

import json
import os
import random
import socket
import threading
from socket import SOCK_DGRAM

import pytest

from conftest import require
from lab import wait_until

UNFINISHED = ("fragments dropped due to reassembly timeout", "reassembly timeout, sender told")


@pytest.mark.parametrize("mtu", [68, 576, 1006, 1400, 1499])
def test_large_pings_pass_links_that_take_less(two_hosts, mtu):
    """The host cuts for 1500, the router again for the next link, in both directions."""
    router, h1, h2 = two_hosts
    router.cli(f"set interface mtu packet {mtu} e1")
    assert h1.reaches("10.0.2.2", "-M", "dont", "-s", 8000, wait=5)
    errors = router.errors()
    # Of a host's six fragments the last is 628 bytes; the replies come over a link that takes them.
    assert errors["packet fragmented"] == 3 * (5 if mtu >= 628 else 6)
    assert errors["number of sent fragments"] > errors["packet fragmented"]
    assert h2.counter("IpReasmOKs") == 3 and h2.counter("IpReasmFails") == 0
    assert h1.counter("IpReasmOKs") == 3


def test_a_large_packet_from_a_jumbo_link_is_cut_for_a_plain_one(lab):
    router, h1, h2 = lab.two_hosts("tap")
    h1.ip("link", "set", "eth0", "mtu", 9000)
    router.cli("set interface mtu packet 9000 e0")
    assert h1.reaches("10.0.2.2", "-M", "dont", "-s", 8000, wait=5)
    assert router.errors()["packet fragmented"] == 3
    assert h2.counter("IpReasmReqds") == 3 * 6


@pytest.mark.parametrize("size", [1473, 8000, 60_000, 65_507])
def test_the_router_answers_large_pings(two_hosts, size):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.1.1", "-s", size, wait=5)
    assert router.errors()["successful reassemblies"] == 3
    assert h1.counter("IpReasmOKs") == 3 and h1.counter("IcmpInCsumErrors") == 0


def test_the_router_pings_with_large_packets(two_hosts):
    router, h1, _ = two_hosts
    for size in (1473, 8000, 65_507):
        shown = router.cli(f"ping 10.0.1.2 repeat 3 interval 0.05 size {size}")
        assert "3 sent, 3 received, 0% packet loss" in shown
        assert f"{size + 28} bytes from 10.0.1.2" in shown
    assert h1.counter("IpReasmOKs") == 9


@pytest.mark.parametrize("mtu", [576, 1280, 1492])
def test_hosts_learn_the_mtu(two_hosts, mtu):
    router, h1, _ = two_hosts
    router.cli(f"set interface mtu packet {mtu} e1")
    done = h1.ping("10.0.2.2", "-M", "do", "-s", 1472, count=2)
    assert f"mtu = {mtu}" in done.stdout + done.stderr or "message too long" in done.stdout + done.stderr
    route = json.loads(h1.ip("-json", "route", "get", "10.0.2.2"))[0]
    assert route["metrics"][0]["mtu"] == mtu
    assert h1.reaches("10.0.2.2", "-M", "do", "-s", mtu - 28)
    assert router.errors()["ip4 MTU exceeded and DF set"] >= 1


def iperf(server, client, *options, address="10.0.2.2"):
    """Runs iperf3 between two hosts; gives the client's report."""
    require("iperf3")
    process = server.start("iperf3", "--server", "--one-off", "--bind", address)
    wait_until(lambda: ":5201" in server.run("ss", "-Hltn").stdout, "iperf3 listens")
    report = client.run("iperf3", "--json", "--client", address, *options, check=False, timeout=60).stdout
    process.wait(timeout=20)
    return json.loads(report)["end"]


def test_tcp_finds_the_mtu_of_its_way(two_hosts):
    router, h1, h2 = two_hosts
    router.cli("set interface mtu packet 1200 e1")
    end = iperf(h2, h1, "--bytes", "20M")
    assert end["sum_received"]["bytes"] > 10_000_000
    assert router.errors()["ip4 MTU exceeded and DF set"] >= 1
    assert "packet fragmented" not in router.errors() or router.errors()["packet fragmented"] == 0
    assert json.loads(h1.ip("-json", "route", "get", "10.0.2.2"))[0]["metrics"][0]["mtu"] == 1200


def test_udp_in_large_datagrams_arrives_whole_over_a_narrow_link(two_hosts):
    router, h1, h2 = two_hosts
    router.cli("set interface mtu packet 1200 e1")
    # Linux sets DF on UDP until it knows the MTU; then its own fragments are short enough.
    h1.set("net/ipv4/ip_no_pmtu_disc", 1)
    receiver, sender = h2.socket(SOCK_DGRAM, ("10.0.2.2", 4000)), h1.socket(SOCK_DGRAM)
    for _ in range(20):
        data = os.urandom(8000)
        sender.sendto(data, ("10.0.2.2", 4000))
        assert receiver.recv(9000) == data
    assert router.errors()["packet fragmented"] >= 20 * 5
    end = iperf(h2, h1, "--udp", "--length", "8000", "--bitrate", "5M", "--time", "2")
    # A busy machine may lose some: each takes all its fragments.
    assert end["sum"]["packets"] > 100
    assert end["sum"]["lost_packets"] * 2 <= end["sum"]["packets"]


class Attack:
    """Fragments to the router, sent as fast as a host can, while another host pings through."""

    def __init__(self, lab):
        pytest.importorskip("scapy.layers.inet")
        import scapy.all

        self.scapy = scapy.all
        self.router, self.h1, self.h2 = lab.two_hosts("tap")
        # Sources of all kinds have a way back, or they would not get as far as reassembly.
        self.router.cli("ip route add 10.0.0.0/8 via 10.0.1.2")
        # However slowly a busy machine sends, nothing times out between.
        self.set_timeout(60_000)
        assert self.h1.reaches("10.0.1.1", wait=5)
        self.ether = self.scapy.Ether(src=self.h1.mac(), dst=self.h1.neighbours()["10.0.1.1"])
        self.random = random.Random(20_261_120)

    def set_timeout(self, milliseconds):
        self.router.cli(f"set ip4-full-reassembly timeout {milliseconds} expire-walk-interval 100")

    def fragment(self, source, ident, offset, more, data):
        ip = self.scapy.IP(src=source, dst="10.0.1.1", id=ident, flags="MF" if more else 0, frag=offset, proto=1)
        return bytes(self.ether / ip / data)

    def run(self, frames, repeat):
        """Sends, and pings from h2 to the router and the router's other side meanwhile; none is
        to be lost. Gives the most buffers that were in use, and the errors that were counted."""
        before, stop, most = self.router.errors(), threading.Event(), [0]

        def watch():
            while not stop.is_set():
                most[0] = max(most[0], self.router.cli_json("show buffers")["used"])

        def send():
            wire = self.h1.frames()
            for _ in range(repeat):
                for frame in frames:
                    wire.send(frame)

        threads = [threading.Thread(target=work) for work in (watch, send)]
        for thread in threads:
            thread.start()
        reached = self.h2.reaches("10.0.2.1", "-s", 4000, count=40, interval=0.02, wait=5)
        threads[1].join(60)
        stop.set()
        threads[0].join(10)
        assert reached
        self.set_timeout(100)
        wait_until(lambda: self.router.cli_json("show buffers")["used"] == 0, "all buffers are given back", seconds=10)
        # Discarded datagrams have no buffers, but are remembered until their time is up.
        in_progress = lambda: self.router.cli_json("show ip4-full-reassembly")["reassemblies"]
        wait_until(lambda: in_progress() == 0, "nothing is in progress", seconds=10)
        assert self.router.cli_json("show ledger")["balanced"]
        self.set_timeout(60_000)
        errors = self.router.errors()
        return most[0], {name: count - before.get(name, 0) for name, count in errors.items()}


@pytest.fixture
def attack(lab):
    return Attack(lab)


def test_fragments_never_completed_from_many_sources(attack):
    address = lambda: (
        f"10.{attack.random.randrange(1, 250)}.{attack.random.randrange(250)}.{attack.random.randrange(1, 250)}"
    )
    frames = [
        attack.fragment(
            address(), attack.random.randrange(65536), attack.random.choice([0, 185, 4000]), True, bytes(1400)
        )
        for _ in range(4000)
    ]
    most, errors = attack.run(frames, repeat=5)
    # The limit, and what was on its way.
    assert most <= 2048 + 512
    assert errors["drops due to concurrent reassemblies limit"] > 0
    assert sum(errors.get(name, 0) for name in UNFINISHED) > 0


def test_fragments_never_completed_from_one_source(attack):
    frames = [attack.fragment("10.0.1.2", n, 1, True, bytes(1400)) for n in range(4000)]
    most, errors = attack.run(frames, repeat=5)
    assert most <= 64 + 512
    assert errors["drops due to reassemblies limit of one source"] > 0


@pytest.mark.slow
def test_overlaps_duplicates_and_lies(attack):
    frames = []
    for ident in range(0, 4000, 4):
        data = attack.random.randbytes(800)
        frames += [attack.fragment("10.0.1.2", ident, at, True, data) for at in (0, 50, 200)]
        frames += [attack.fragment("10.0.1.2", ident + 1, 0, True, data)] * 3
        frames += [attack.fragment("10.0.1.2", ident + 2, at, False, data) for at in (100, 300)]
        # "Teardrop": the second lies within the first; and a tiny one.
        frames += [
            attack.fragment("10.0.1.2", ident + 3, 0, True, data),
            attack.fragment("10.0.1.2", ident + 3, 3, False, bytes(4)),
        ]
    most, errors = attack.run(frames, repeat=3)
    assert most <= 64 + 512
    for name in (
        "overlapping fragments",
        "duplicate fragments",
        "last fragments disagree",
        "fragment of a discarded datagram",
    ):
        assert errors[name] > 0, errors


def test_the_longest_datagrams_in_tiny_fragments_take_little_memory(attack):
    # 8 bytes each, of which thousands would be one datagram: the fragments that are allowed, and no last one.
    frames = [attack.fragment("10.0.1.2", 7, n, True, bytes(8)) for n in range(2, 2000)]
    most, errors = attack.run(frames, repeat=2)
    assert most <= 32 + 512
    assert errors["fragment chain too long"] == 1
    # It is forgotten: another one may have its number.
    assert attack.h1.reaches("10.0.1.1", "-s", 8000, wait=5)
