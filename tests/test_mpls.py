"""Label switched paths through three routers in a row, between hosts that know nothing of them.

    left ---- [ west ] ==== [ core ] ==== [ east ] ---- right
       10.1.0.1     100.64.1.0/24   100.64.2.0/24     10.2.0.1
"""

import re
import struct

import pytest

from conftest import require
from lab import run, wait_until

# To the east 16 and then 17, to the west 26 and then 27.
EAST, WEST = (16, 17), (26, 27)


class Row:
    """Three routers in a row, the outer ones with labelled links to the middle one."""

    def __init__(self, lab):
        self.lab = lab
        self.west, self.core, self.east = self.all = [lab.router() for _ in range(3)]
        self.join(self.west, self.core, 1)
        self.join(self.core, self.east, 2)

    def join(self, one, other, number):
        """A wire, `up<N>` at one router and `down<N>` at the other, which have .1 and .2 of 100.64.N.0/24."""
        one.host.ip("link", "add", f"up{number}", "type", "veth", "peer", "name", f"down{number}", "netns", other.host.namespace)
        for router, name, address in ((one, f"up{number}", 1), (other, f"down{number}", 2)):
            router.batch(
                f"create host-interface {name} name {name}\n"
                f"set interface ip address {name} 100.64.{number}.{address}/24\n"
                f"set interface state {name} up\n"
                f"{'mpls table add 0' if 'table_id' not in router.cli('show mpls table') else 'show version'}\n"
                f"set interface mpls {name} enable\n"
            )

    def customer(self, router, name, network, table=0):
        """A host behind an interface `name` of an outer router: .2 of a network whose .1 the router is."""
        host = self.lab.host(name)
        router.attach(host, name, "tap", f"{network}.2/24")
        if table:
            router.batch(f"ip table add {table}\nset interface ip table {name} {table}\n")
        router.batch(f"set interface ip address {name} {network}.1/24\nset interface state {name} up\n")
        host.ip("route", "add", "default", "via", f"{network}.1")
        return host

    def swap(self):
        """The middle of both paths."""
        self.core.batch(
            f"mpls local-label add {EAST[0]} via 100.64.2.2 up2 out-labels {EAST[1]}\n"
            f"mpls local-label add {WEST[0]} via 100.64.1.1 down1 out-labels {WEST[1]}\n"
        )


@pytest.fixture
def row(lab):
    return Row(lab)


def plain_paths(row, model=""):
    """A path each way between the default tables of the outer routers, and a host at each end."""
    left, right = row.customer(row.west, "left", "10.1.0"), row.customer(row.east, "right", "10.2.0")
    row.swap()
    row.west.batch(
        f"ip route add 10.2.0.0/24 via 100.64.1.2 up1 out-labels {EAST[0]} {model}\n"
        f"mpls local-label add {WEST[1]} eos via ip4-lookup-in-table 0 {model}\n"
    )
    row.east.batch(
        f"ip route add 10.1.0.0/24 via 100.64.2.1 down2 out-labels {WEST[0]} {model}\n"
        f"mpls local-label add {EAST[1]} eos via ip4-lookup-in-table 0 {model}\n"
    )
    # Whoever is asked for first keeps a packet waiting, or loses it.
    wait_until(lambda: left.reaches("10.2.0.2", count=1), "the path is walked")
    return left, right


def labels_on(sniffer, count):
    """The label stacks of the next so many labelled frames, as (label, class, bottom, time to live)."""
    stacks = []
    while len(stacks) < count:
        frame = sniffer.recv(2000)
        if frame[12:14] != b"\x88\x47":
            continue
        stack, at = [], 14
        while not stack or not stack[-1][2]:
            entry = struct.unpack_from("!I", frame, at)[0]
            stack.append((entry >> 12, entry >> 9 & 7, bool(entry >> 8 & 1), entry & 0xFF))
            at += 4
        stacks.append((stack, frame[at:]))
    return stacks


def hops(host, address):
    """What traceroute shows, a line for each hop: address and labels."""
    shown = host.run("traceroute", "-n", "-e", "-q", 1, "-w", 2, address).stdout.splitlines()[1:]
    return [(re.search(r"[\d.]{7,}", line).group(), re.findall(r"L=(\d+),E=\d,S=(\d),T=(\d+)", line)) for line in shown]


def test_hosts_reach_each_other_over_a_path(row):
    left, right = plain_paths(row)
    sniffer = row.core.host.frames("down1")
    assert left.reaches("10.2.0.2", count=5) and right.reaches("10.1.0.2", count=5)
    # There with the first label of its path, back with the last: one hop of the core later.
    (there, inside), (back, _) = labels_on(sniffer, 2)
    assert there == [(16, 0, True, 64)] and inside[0] == 0x45 and inside[8] == 63
    assert back == [(27, 0, True, 63)]
    assert "16:eos" in row.core.cli("show mpls fib 16")


def test_a_path_of_the_pipe_model_is_one_hop(row):
    left, _ = plain_paths(row)
    assert hops(left, "10.2.0.2") == [("10.1.0.1", []), ("100.64.2.2", []), ("10.2.0.2", [])]


def test_in_the_uniform_model_each_router_shows_with_its_labels(row):
    left, _ = plain_paths(row, "uniform")
    assert hops(left, "10.2.0.2") == [
        ("10.1.0.1", []),
        ("100.64.1.2", [("16", "1", "1")]),
        # It has taken the label off when it finds that the packet goes no further.
        ("100.64.2.2", []),
        ("10.2.0.2", []),
    ]


def test_customers_may_have_the_same_addresses(row):
    """Two of them, each with a table of its own at both ends and a label of its own at the bottom."""
    pairs = []
    for table, label in ((10, 100), (20, 200)):
        pair = [row.customer(row.west, f"w{table}", "10.1.0", table), row.customer(row.east, f"e{table}", "10.2.0", table)]
        pairs.append(pair)
        for router, far, hop, first in ((row.west, "10.2.0.0/24", "100.64.1.2", EAST[0]), (row.east, "10.1.0.0/24", "100.64.2.1", WEST[0])):
            router.batch(
                f"ip route add table {table} {far} via {hop} next-hop-table 0 out-labels {first} {label}\n"
                f"mpls local-label add {label} eos via ip4-lookup-in-table {table}\n"
            )
    row.swap()
    row.west.batch(f"mpls local-label add {WEST[1]} non-eos via mpls-lookup-in-table 0\n")
    row.east.batch(f"mpls local-label add {EAST[1]} non-eos via mpls-lookup-in-table 0\n")
    for count, (west, east) in enumerate(pairs, 3):
        wait_until(lambda west=west: west.reaches("10.2.0.2", count=1), "the path is walked")
        before = [host.counter("IcmpInEchos") for _, host in pairs]
        assert west.reaches("10.2.0.2", count=count)
        gained = [host.counter("IcmpInEchos") - was for (_, host), was in zip(pairs, before)]
        assert gained == [count if host is east else 0 for _, host in pairs]
        # What the far router says of a packet finds back to the customer whose it is.
        assert hops(west, "10.2.0.2") == [("10.1.0.1", []), ("100.64.2.2", []), ("10.2.0.2", [])]


def test_the_last_router_but_one_may_take_the_label_off(row):
    left, right = plain_paths(row)
    row.core.cli("mpls local-label replace 16 eos via 100.64.2.2 up2")
    row.core.cli("mpls local-label replace 26 eos via 100.64.1.1 down1")
    for router, label in ((row.west, WEST[1]), (row.east, EAST[1])):
        router.cli(f"mpls local-label del {label} eos")
    assert left.reaches("10.2.0.2", count=4) and right.reaches("10.1.0.2", count=4)


def test_a_tunnel_carries_routes_and_labels(row):
    left, right = plain_paths(row)
    row.west.cli("ip route del 10.2.0.0/24")
    assert row.west.cli("mpls tunnel add via 100.64.1.2 up1 out-labels 16") == "mpls-tunnel0\n"
    row.west.batch("set interface state mpls-tunnel0 up\nip route add 10.2.0.0/24 via mpls-tunnel0\n")
    assert left.reaches("10.2.0.2", count=4) and right.reaches("10.1.0.2", count=4)
    assert row.west.counters("mpls-tunnel0")["tx_packets"] >= 8


def test_senders_learn_what_fits_with_labels(row):
    left, _ = plain_paths(row)
    assert not left.reaches("10.2.0.2", "-M", "do", "-s", 1472, count=1)
    assert "mtu 1496" in left.ip("route", "get", "10.2.0.2")
    assert left.reaches("10.2.0.2", "-M", "do", "-s", 1468, count=2)
    # Who lets his packets be cut has them cut where the label is put on.
    assert left.reaches("10.2.0.2", "-M", "dont", "-s", 2000, count=2)


def test_paths_come_back_with_their_configuration(row):
    left, _ = plain_paths(row)
    row.core.cli("mpls tunnel add via 100.64.2.2 up2 out-labels 17 18")
    wanted = row.core.cli("show running-config")
    saved = row.core.directory / "commands"
    saved.write_text(wanted)
    row.core.batch("mpls local-label del 16\nmpls local-label del 26\nmpls tunnel del mpls-tunnel0\n")
    row.core.batch("set interface mpls down1 disable\nset interface mpls up2 disable\nmpls table del 0\n")
    assert not left.reaches("10.2.0.2", count=1)
    row.core.cli(f"load {saved}")
    assert row.core.cli("show running-config") == wanted
    assert left.reaches("10.2.0.2", count=3)


def test_hosts_of_ip6_reach_each_other_between_routers_of_ip4(row):
    """RFC 4798, with the explicit null of IPv6 at the bottom."""
    left, right = plain_paths(row)
    for router, host, number, hop, far, label in (
        (row.west, left, 1, "100.64.1.2 up1", 2, EAST[0]),
        (row.east, right, 2, "100.64.2.1 down2", 1, WEST[0]),
    ):
        name = host.name
        router.cli(f"set interface ip address {name} 2001:db8:{number}::1/64")
        router.cli(f"ip route add 2001:db8:{far}::/64 via {hop} out-labels {label} 2")
        router.cli(f"mpls local-label add {EAST[1] if number == 2 else WEST[1]} non-eos via mpls-lookup-in-table 0")
        router.wait_for_addresses6()
        host.speak_ip6(f"2001:db8:{number}::2/64", router=f"2001:db8:{number}::1")
    wait_until(lambda: left.reaches("2001:db8:2::2", count=1), "the path is walked")
    assert left.reaches("2001:db8:2::2", count=4) and right.reaches("2001:db8:1::2", count=4)


def test_another_program_reads_the_same(row, tmp_path):
    require("tshark")
    left, _ = plain_paths(row)
    row.west.cli("ip route replace 10.2.0.0/24 via 100.64.1.2 up1 out-labels 16 2000 ttl 9 exp 5")
    row.core.cli("mpls local-label add 16 non-eos via 100.64.2.2 up2 out-labels 17")
    sniffers = row.core.host.frames("down1"), row.core.host.frames("up2")
    left.ping("10.2.0.2", count=1, wait=1)
    for sniffer, first, ttl in zip(sniffers, EAST, (9, 8)):
        frame = sniffer.recv(2000)
        while frame[12:14] != b"\x88\x47":
            frame = sniffer.recv(2000)
        capture = tmp_path / f"{first}.pcap"
        header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        capture.write_bytes(header + struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)
        fields = ("mpls.label", "mpls.exp", "mpls.bottom", "mpls.ttl", "ip.dst", "ip.checksum.status", "icmp.type")
        wanted = [word for field in fields for word in ("-e", field)]
        read = run("tshark", "-o", "ip.check_checksum:TRUE", "-r", capture, "-T", "fields", *wanted).stdout.split()
        assert read == [f"{first},2000", "5,5", "0,1", f"{ttl},9", "10.2.0.2", "1", "8"]
