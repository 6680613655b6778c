"""Label switched paths through three routers in a row, between hosts that know nothing of them.

left ---- [ west ] ==== [ core ] ==== [ east ] ---- right
   10.1.0.1     100.64.1.0/24   100.64.2.0/24     10.2.0.1
"""

import os
import re
import struct
import subprocess

import pytest

from conftest import require
from lab import CommandFailed, run, wait_until
from test_transport import transfer
from test_workers import TWO, flows_arrive, vectors_by_thread

scapy = pytest.importorskip("scapy.all", reason="needs python3-scapy (make deps)")

# To the east 16 and then 17, to the west 26 and then 27.
EAST, WEST = (16, 17), (26, 27)


class Row:
    """Three routers in a row, the outer ones with labelled links to the middle one."""

    def __init__(self, lab, extra="", tag=None):
        """`extra` is of the core's startup.conf; with a tag the links are sub-interfaces."""
        self.lab, self.tag = lab, tag
        started = [lab.router(unix="startup-config DIR/saved.cli", extra=more) for more in ("", extra, "")]
        self.west, self.core, self.east = self.all = started
        self.join(self.west, self.core, 1)
        self.join(self.core, self.east, 2)

    def join(self, one, other, number):
        """A wire, `up<N>` at one router and `down<N>` at the other, which have .1 and .2 of 100.64.N.0/24."""
        one.host.ip(
            "link", "add", f"up{number}", "type", "veth", "peer", "name", f"down{number}", "netns", other.host.namespace
        )
        for router, name, address in ((one, f"up{number}", 1), (other, f"down{number}", 2)):
            router.batch(f"create host-interface {name} name {name}\nset interface state {name} up\n")
            if self.tag:
                router.cli(f"create sub-interfaces {name} {self.tag}")
            name = self.link(name)
            router.batch(
                f"set interface ip address {name} 100.64.{number}.{address}/24\n"
                f"set interface state {name} up\n"
                f"{'mpls table add 0' if 'table_id' not in router.cli('show mpls table') else 'show version'}\n"
                f"set interface mpls {name} enable\n"
            )

    def link(self, name):
        """The interface that a link has at one of its ends."""
        return f"{name}.{self.tag}" if self.tag else name

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
            f"mpls local-label add {EAST[0]} via 100.64.2.2 {self.link('up2')} out-labels {EAST[1]}\n"
            f"mpls local-label add {WEST[0]} via 100.64.1.1 {self.link('down1')} out-labels {WEST[1]}\n"
        )


@pytest.fixture
def row(lab):
    return Row(lab)


def plain_paths(row, model=""):
    """A path each way between the default tables of the outer routers, and a host at each end."""
    left, right = row.customer(row.west, "left", "10.1.0"), row.customer(row.east, "right", "10.2.0")
    row.swap()
    row.west.batch(
        f"ip route add 10.2.0.0/24 via 100.64.1.2 {row.link('up1')} out-labels {EAST[0]} {model}\n"
        f"mpls local-label add {WEST[1]} eos via ip4-lookup-in-table 0 {model}\n"
    )
    row.east.batch(
        f"ip route add 10.1.0.0/24 via 100.64.2.1 {row.link('down2')} out-labels {WEST[0]} {model}\n"
        f"mpls local-label add {EAST[1]} eos via ip4-lookup-in-table 0 {model}\n"
    )
    # Whoever is asked for first keeps a packet waiting, or loses it.
    wait_until(lambda: left.reaches("10.2.0.2", count=1), "the path is walked")
    return left, right


#: Customers' tables, and the label at the bottom of what is theirs, of either family.
CUSTOMERS = {10: (1010, 1016), 20: (1020, 1026)}


def customers_paths(row):
    """Two customers with the same addresses of both families; each has its own table and labels at both ends.

    The outer routers know each other by loopback addresses. The core takes off the label that leads there. Returns
    the hosts of each customer."""
    ends = [
        (row.west, "192.0.2.1", "192.0.2.3", "100.64.1.2 up1", 1, 2, EAST[0]),
        (row.east, "192.0.2.3", "192.0.2.1", "100.64.2.1 down2", 2, 1, WEST[0]),
    ]
    row.core.batch(
        f"mpls local-label add {EAST[0]} non-eos via 100.64.2.2 up2\n"
        f"mpls local-label add {WEST[0]} non-eos via 100.64.1.1 down1\n"
    )
    pairs = [[], []]
    for router, own, other, hop, here, there, label in ends:
        router.batch(
            "create loopback interface name lo0\n"
            f"set interface ip address lo0 {own}/32\n"
            "set interface state lo0 up\n"
            f"ip route add {other}/32 via {hop} out-labels {label}\n"
        )
        for pair, (table, (inside, inside6)) in zip(pairs, CUSTOMERS.items()):
            host = row.customer(router, f"c{table}", f"10.{here}.0", table)
            router.batch(
                f"ip6 table add {table}\n"
                f"set interface ip6 table c{table} {table}\n"
                f"set interface ip address c{table} 2001:db8:{here}::1/64\n"
                f"ip route add table {table} 10.{there}.0.0/24 via {other} next-hop-table 0 out-labels {inside}\n"
                f"ip route add table {table} 2001:db8:{there}::/64 via {other} next-hop-table 0 out-labels {inside6}\n"
                f"mpls local-label add {inside} eos via ip4-lookup-in-table {table}\n"
                f"mpls local-label add {inside6} eos via ip6-lookup-in-table {table}\n"
            )
            host.speak_ip6(f"2001:db8:{here}::2/64", router=f"2001:db8:{here}::1")
            pair.append(host)
        router.wait_for_addresses6()
    for west, _ in pairs:
        for address in ("10.2.0.2", "2001:db8:2::2"):
            wait_until(lambda west=west, address=address: west.reaches(address, count=1), "the path is walked")
    return pairs


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
    return [(line.split()[1], re.findall(r"L=(\d+),E=\d,S=(\d),T=(\d+)", line)) for line in shown]


def test_hosts_reach_each_other_over_a_path(row):
    left, right = plain_paths(row)
    sniffer = row.core.host.frames("down1")
    assert left.reaches("10.2.0.2", count=5) and right.reaches("10.1.0.2", count=5)
    # There with the first label of its path, back with the last: one hop of the core later.
    (there, inside), (back, _) = labels_on(sniffer, 2)
    assert there == [(16, 0, True, 64)] and inside[0] == 0x45 and inside[8] == 63
    assert back == [(27, 0, True, 63)]
    assert "16:eos" in row.core.cli("show mpls fib 16")


def test_files_and_long_packets_pass_though_the_core_knows_none_of_their_addresses(row):
    left, right = plain_paths(row)
    for address in ("10.1.0.2", "10.2.0.2"):
        with pytest.raises(CommandFailed, match=f"no route to {address}"):
            row.core.cli(f"show ip fib {address}")
    assert left.reaches("10.2.0.2", "-s", 1400) and right.reaches("10.1.0.2", "-s", 1400)
    data = os.urandom(3_000_000)
    assert transfer(left, right, "10.2.0.2", data) == data
    assert transfer(right, left, "10.1.0.2", data) == data
    for host in (left, right):
        assert host.counter("TcpInCsumErrors") == 0


def test_a_path_of_the_pipe_model_is_one_hop(row):
    left, _ = plain_paths(row)
    assert hops(left, "10.2.0.2") == [("10.1.0.1", []), ("100.64.2.2", []), ("10.2.0.2", [])]


def test_in_the_uniform_model_each_router_shows_with_its_labels(row):
    left, _ = plain_paths(row, "uniform")
    assert hops(left, "10.2.0.2") == [
        ("10.1.0.1", []),
        ("100.64.1.2", [("16", "1", "1")]),
        # It has removed the label when it finds that the packet cannot be forwarded.
        ("100.64.2.2", []),
        ("10.2.0.2", []),
    ]


def test_what_the_core_says_of_labels_arrives_to_the_byte(row):
    """It goes by the path's end, which sends it back on the other path."""
    left, _ = plain_paths(row, "uniform")
    wire = left.frames()
    [to_router] = [mac for address, mac in left.neighbours().items() if address == "10.1.0.1"]
    probe = (
        scapy.IP(src="10.1.0.2", dst="10.2.0.2", ttl=2, id=77, tos=0xA0)
        / scapy.UDP(sport=1000, dport=2000)
        / bytes(200)
    )
    wire.send(bytes(scapy.Ether(src=left.mac(), dst=to_router) / probe))
    # As the core saw it.
    quoted = scapy.IP(bytes(probe))
    quoted.ttl = 1
    del quoted.chksum
    labels = (16 << 12 | 5 << 9 | 1 << 8 | 1).to_bytes(4, "big")
    extension = b"\x20\0\0\0" + b"\0\x08\x01\x01" + labels
    extension = extension[:2] + scapy.checksum(extension).to_bytes(2, "big") + extension[4:]
    message = b"\x0b\0\0\0\0\x20\0\0" + bytes(quoted)[:128] + extension
    message = message[:2] + scapy.checksum(message).to_bytes(2, "big") + message[4:]
    frame = wire.recv(2000)
    while frame[12:14] != b"\x08\0" or frame[23] != 1 or frame[:6] != bytes.fromhex(left.mac().replace(":", "")):
        frame = wire.recv(2000)
    assert frame[34:].hex() == message.hex()
    outside = scapy.IP(frame[14:34])
    assert (outside.src, outside.dst, outside.len) == ("100.64.1.2", "10.1.0.2", 20 + len(message))
    # From 64 at the core: the east, the core, the west. Its class was that of the labels, as is all that comes by the
    # path.
    assert (outside.ttl, outside.tos) == (61, 0xA0)
    assert scapy.checksum(frame[14:34]) == 0


def test_routers_of_a_uniform_path_show_to_ip6_too(row):
    left, right = plain_paths(row, "uniform")
    for router, host, number, far, labels, ours in (
        (row.west, left, 1, 2, EAST, "up1"),
        (row.east, right, 2, 1, WEST, "down2"),
    ):
        end = WEST[1] if router is row.west else EAST[1]
        peer = "down1" if router is row.west else "up2"
        router.cli(f"set interface ip address {ours} 2001:db8:f{number}::1/64")
        row.core.cli(f"set interface ip address {peer} 2001:db8:f{number}::2/64")
        router.cli(f"set interface ip address {host.name} 2001:db8:{number}::1/64")
        router.cli(f"ip route add 2001:db8:{far}::/64 via 2001:db8:f{number}::2 {ours} out-labels {labels[0]} uniform")
        router.cli(f"mpls local-label replace {end} eos via ip6-lookup-in-table 0 uniform")
        host.speak_ip6(f"2001:db8:{number}::2/64", router=f"2001:db8:{number}::1")
    for router in row.all:
        router.wait_for_addresses6()
    wait_until(lambda: left.reaches("2001:db8:2::2", count=1), "the path is walked")
    assert hops(left, "2001:db8:2::2") == [
        ("2001:db8:1::1", []),
        ("2001:db8:f1::2", [("16", "1", "1")]),
        ("2001:db8:f2::1", []),
        ("2001:db8:2::2", []),
    ]


def test_customers_are_behind_the_addresses_of_routers(row):
    """The label of a customer below that of the path to a loopback, which the last router but one takes off."""
    pairs = customers_paths(row)
    for count, (west, east) in enumerate(pairs, 3):
        for address, counter in (("10.2.0.2", "IcmpInEchos"), ("2001:db8:2::2", "Icmp6InEchos")):
            before = [host.counter(counter) for _, host in pairs]
            assert west.reaches(address, count=count)
            gained = [host.counter(counter) - was for (_, host), was in zip(pairs, before)]
            assert gained == [count if host is east else 0 for _, host in pairs]
        # The far router's own addresses of this customer, and what it says of his packets.
        assert west.reaches("10.2.0.1") and west.reaches("2001:db8:2::1")
        assert hops(west, "10.2.0.2") == [("10.1.0.1", []), ("10.2.0.1", []), ("10.2.0.2", [])]
        assert hops(west, "2001:db8:2::2") == [("2001:db8:1::1", []), ("2001:db8:2::1", []), ("2001:db8:2::2", [])]
        assert [address for address, _ in hops(west, "2001:db8:2::1")] == ["2001:db8:1::1", "2001:db8:2::1"]
    data = os.urandom(1_000_000)
    for address in ("10.2.0.2", "2001:db8:2::2"):
        assert transfer(*pairs[1], address, data) == data


def test_a_customer_that_has_no_path_does_not_take_that_of_another(row):
    (west, east), (other, _) = customers_paths(row)
    row.west.cli("ip route del table 20 10.2.0.0/24")
    row.east.cli("mpls local-label del 1026 eos")
    before = [host.counter(name) for host in (east,) for name in ("IcmpInEchos", "Icmp6InEchos")]
    assert not other.reaches("10.2.0.2", count=1) and not other.reaches("2001:db8:2::2", count=1, wait=1)
    assert [host.counter(name) for host in (east,) for name in ("IcmpInEchos", "Icmp6InEchos")] == before
    assert row.east.errors()["mpls label leads nowhere"] == 1
    assert west.reaches("10.2.0.2") and west.reaches("2001:db8:2::2")


def test_customers_may_have_the_same_addresses(row):
    """Two of them, each with a table of its own at both ends and a label of its own at the bottom."""
    pairs = []
    for table, label in ((10, 100), (20, 200)):
        pair = [
            row.customer(row.west, f"w{table}", "10.1.0", table),
            row.customer(row.east, f"e{table}", "10.2.0", table),
        ]
        pairs.append(pair)
        for router, far, hop, first in (
            (row.west, "10.2.0.0/24", "100.64.1.2", EAST[0]),
            (row.east, "10.1.0.0/24", "100.64.2.1", WEST[0]),
        ):
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
        # What the far router says of a packet finds back to the customer whose it is, from an address that he knows.
        assert hops(west, "10.2.0.2") == [("10.1.0.1", []), ("10.2.0.1", []), ("10.2.0.2", [])]


def test_the_last_router_but_one_may_take_the_label_off(row):
    left, right = plain_paths(row)
    row.core.cli("mpls local-label replace 16 eos via 100.64.2.2 up2")
    row.core.cli("mpls local-label replace 26 eos via 100.64.1.1 down1")
    for router, label in ((row.west, WEST[1]), (row.east, EAST[1])):
        router.cli(f"mpls local-label del {label} eos")
    assert left.reaches("10.2.0.2", count=4) and right.reaches("10.1.0.2", count=4)


def test_in_the_uniform_model_the_router_that_takes_the_label_off_shows(row):
    left, right = plain_paths(row, "uniform")
    row.core.cli("mpls local-label replace 16 eos via 100.64.2.2 up2 uniform")
    row.core.cli("mpls local-label replace 26 eos via 100.64.1.1 down1 uniform")
    assert left.reaches("10.2.0.2", count=4) and right.reaches("10.1.0.2", count=4)
    assert [address for address, _ in hops(left, "10.2.0.2")] == ["10.1.0.1", "100.64.1.2", "100.64.2.2", "10.2.0.2"]


@pytest.mark.slow
def test_a_path_is_replaced_without_a_loss(row):
    (west, _), _ = customers_paths(row)
    pinging = west.start("ping", "-n", "-q", "-i", 0.02, "-c", 150, "10.2.0.2", stdout=subprocess.PIPE)
    for number in range(60):
        row.core.cli(f"mpls local-label replace {EAST[0]} non-eos via 100.64.2.2 up2 weight {1 + number % 2}")
        row.west.cli(f"ip route replace 192.0.2.3/32 via 100.64.1.2 up1 out-labels {EAST[0]} ttl {64 + number % 2}")
    shown = pinging.communicate(timeout=30)[0]
    assert "150 received, 0% packet loss" in shown, shown


def test_labels_that_form_a_loop_let_packets_die(row):
    (west, _), _ = customers_paths(row)
    row.core.cli(f"mpls local-label replace {EAST[0]} non-eos via 100.64.1.1 down1 out-labels 40")
    row.west.cli(f"mpls local-label add 40 non-eos via 100.64.1.2 up1 out-labels {EAST[0]}")
    sent = row.core.counters("down1")["tx_packets"]
    assert not west.reaches("10.2.0.2", count=1, wait=1)
    errors = [router.errors() for router in (row.west, row.core)]
    # What is told of it goes round as well, and of that nothing is told.
    for name in ("ICMP time exceeded sent", "no ICMP error about such a labelled packet"):
        assert sum(counts.get(name, 0) for counts in errors) == 1, name
    # The packet half of 64 times, and the message half of 254.
    gone_round = row.core.counters("down1")["tx_packets"] - sent
    assert 64 // 2 <= gone_round - 254 // 2 <= 64 // 2 + 8, gone_round


def test_routers_ping_each_other_over_their_own_path(row):
    customers_paths(row)
    row.core.cli(f"mpls local-label add {EAST[0]} eos via 100.64.2.2 up2")
    row.core.cli(f"mpls local-label add {WEST[0]} eos via 100.64.1.1 down1")
    for line in (
        "ping 192.0.2.3 source lo0 repeat 2 interval 0.1",
        "ping 10.2.0.2 table-id 20 repeat 2 interval 0.1",
        "ping 2001:db8:2::2 table-id 20 repeat 2 interval 0.1",
        "ping 10.2.0.2 source c20 table-id 20 repeat 2 interval 0.1",
        "ping 2001:db8:2::2 source c20 table-id 20 repeat 2 interval 0.1",
        "ping 10.2.0.1 source c10 table-id 10 repeat 2 interval 0.1 size 4000",
    ):
        assert "2 received, 0% packet loss" in row.west.cli(line), line


def test_a_path_goes_over_tagged_links(lab):
    row = Row(lab, tag=100)
    left, right = plain_paths(row, "uniform")
    sniffer = row.core.host.frames("down1")
    assert left.reaches("10.2.0.2", count=2) and right.reaches("10.1.0.2", count=2)
    frames = [frame for frame in (sniffer.recv(2000) for _ in range(4)) if frame[12:14] == b"\x88\x47"]
    assert min(row.core.counters(row.link(name))["rx_packets"] for name in ("down1", "up2")) >= 4
    # A socket gets the tag apart from the frame.
    assert [frame[14:18].hex() for frame in frames[:1]] == [(16 << 12 | 1 << 8 | 63).to_bytes(4, "big").hex()]
    assert [address for address, _ in hops(left, "10.2.0.2")] == ["10.1.0.1", "100.64.1.2", "100.64.2.2", "10.2.0.2"]
    data = os.urandom(1_000_000)
    assert transfer(left, right, "10.2.0.2", data) == data


def test_flows_of_one_label_are_shared_among_workers(lab):
    """By what is inside: of the labels all are alike."""
    row = Row(lab, extra=TWO)
    left, right = plain_paths(row)
    for name in ("down1", "up2"):
        row.core.batch(f"set interface rx-placement {name} worker 0\nset interface handoff {name} workers 0-1\n")
    row.core.cli("clear runtime")
    flows_arrive(right, left, address="10.2.0.2")
    looked_up = vectors_by_thread(row.core, "mpls-lookup")
    assert min(looked_up) > 500, looked_up
    assert vectors_by_thread(row.core, "af-packet-input")[1] == 0


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


def test_senders_of_ip6_learn_what_fits_with_two_labels(row):
    left, right = paths_of_ip6(row)
    assert not left.reaches("2001:db8:2::2", "-M", "do", "-s", 1493 - 48, count=1)
    assert "mtu 1492" in left.ip("-6", "route", "get", "2001:db8:2::2")
    assert left.reaches("2001:db8:2::2", "-M", "do", "-s", 1492 - 48, count=2)
    data = os.urandom(1_000_000)
    assert transfer(right, left, "2001:db8:1::2", data) == data


def test_senders_learn_what_the_core_carries(row):
    """Who cannot answer a sender himself has the path's end send it back: RFC 3032 2.3.2."""
    left, right = plain_paths(row)
    row.core.cli("set interface mtu mpls 1400 up2")
    # First of the west, whose link is longer.
    for told in (1496, 1396):
        assert not left.reaches("10.2.0.2", "-M", "do", "-s", told - 28 + 4, count=1)
        assert f"mtu {told}" in left.ip("route", "get", "10.2.0.2")
    assert left.reaches("10.2.0.2", "-M", "do", "-s", 1396 - 28, count=2)
    assert right.reaches("10.1.0.2", "-M", "do", "-s", 1496 - 28, count=2)
    left.ip("route", "flush", "cache")
    data = os.urandom(1_000_000)
    assert transfer(left, right, "10.2.0.2", data) == data
    assert row.core.errors()["ICMP fragmentation needed sent"] >= 2


def test_customers_learn_what_the_core_carries(row):
    (west, east), (other, _) = customers_paths(row)
    # Four bytes are for the label that is left behind the core, which has an address to speak of IPv6 with.
    row.core.batch(
        "set interface mtu mpls 1404 up2\n"
        "create loopback interface name lo0\n"
        "set interface ip address lo0 2001:db8:c::1/128\n"
        "set interface state lo0 up\n"
    )
    row.core.wait_for_addresses6()
    for address, overhead in (("10.2.0.2", 28), ("2001:db8:2::2", 48)):
        west.reaches(address, "-M", "do", "-s", 1492 - overhead, count=1)
        assert "mtu 1400" in west.ip("route", "get", address)
        assert "mtu" not in other.ip("route", "get", address), "the other customer was not told"
        assert west.reaches(address, "-M", "do", "-s", 1400 - overhead, count=2)
    data = os.urandom(1_000_000)
    assert transfer(west, east, "10.2.0.2", data) == data
    assert transfer(west, east, "2001:db8:2::2", data) == data


@pytest.mark.slow
def test_an_edge_comes_back_as_it_was_saved(row):
    """Tables, loopbacks, paths behind other paths: a new process has it all from the file."""
    pairs = customers_paths(row)
    row.west.cli("mpls tunnel add via 100.64.1.2 up1 out-labels 17 18 ttl 9 exp 3")
    row.west.cli(
        "ip route add 10.9.0.0/24 via 100.64.1.2 up1 out-labels 16 uniform weight 3 via 100.64.1.2 up1 out-labels 19"
    )
    row.west.cli("mpls local-label add count 3 500 non-eos via 100.64.1.2 up1 out-labels 501 502")
    wanted = row.west.cli("show running-config")
    row.west.cli("save")
    row.west.stop()
    for host, _ in pairs:
        host.ip("link", "delete", "eth0", check=False)
    row.west.start()
    assert row.west.cli("show running-config") == wanted
    row.west.wait_for_addresses6()
    for host, _ in pairs:
        host.ip("address", "replace", "10.1.0.2/24", "dev", "eth0")
        host.ip("route", "replace", "default", "via", "10.1.0.1")
        host.speak_ip6("2001:db8:1::2/64", router="2001:db8:1::1")
        for address in ("10.2.0.2", "2001:db8:2::2"):
            wait_until(lambda host=host, address=address: host.reaches(address, count=1), "the path is walked again")
            assert host.reaches(address)


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


def paths_of_ip6(row):
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
    return left, right


def test_hosts_of_ip6_reach_each_other_between_routers_of_ip4(row):
    left, right = paths_of_ip6(row)
    assert left.reaches("2001:db8:2::2", count=4) and right.reaches("2001:db8:1::2", count=4)


def test_a_router_pings_by_a_next_hop_of_the_other_family(row):
    """From an address of the family of whom it pings, though the next hop has none."""
    paths_of_ip6(row)
    assert "2 received, 0% packet loss" in row.west.cli("ping 2001:db8:2::2 repeat 2 interval 0.1")


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


@pytest.mark.slow
def test_another_program_finds_nothing_wrong_on_the_links(row, tmp_path):
    """Captures of the routers themselves: both customers, both families, and an ICMP error that tells of labels."""
    require("tshark")
    (west, _), (other, _) = customers_paths(row)
    files = {row.west: tmp_path / "west.pcapng", row.core: tmp_path / "core.pcapng"}
    for router, link in ((row.west, "up1"), (row.core, "up2")):
        router.cli(f"pcap trace tx rx max 1000 intfc {link} file {files[router]}")
    for host in (west, other):
        assert host.reaches("10.2.0.2", count=1) and host.reaches("2001:db8:2::2", count=1)
    row.west.cli(f"ip route replace 192.0.2.3/32 via 100.64.1.2 up1 out-labels {EAST[0]} ttl 1 exp 6")
    assert not west.reaches("10.2.0.2", count=1)
    for router, file in files.items():
        router.cli("pcap trace off")
        wait_until(file.exists, "the capture is written")

    def read(router, wanted, *fields):
        checked = [word for protocol in ("ip", "udp") for word in ("-o", f"{protocol}.check_checksum:TRUE")]
        words = [word for field in fields for word in ("-e", field)]
        return run("tshark", *checked, "-r", files[router], "-Y", wanted, "-T", "fields", *words).stdout.splitlines()

    wrong = "_ws.malformed || ip.checksum.status == 0 || icmp.checksum.status == 0 || icmpv6.checksum.status == 0"
    for router in files:
        assert read(router, wrong, "frame.number") == []
    stack = ("mpls.label", "mpls.exp", "mpls.bottom", "mpls.ttl")
    inside = [label for labels in CUSTOMERS.values() for label in labels]
    asked = "icmp.type == 8 && !icmp.type == 11 || icmpv6.type == 128"
    assert read(row.west, asked, *stack) == [
        *(f"{EAST[0]},{label}\t0,0\t0,1\t64,64" for label in inside),
        f"{EAST[0]},{inside[0]}\t6,0\t0,1\t1,64",
    ]
    # The core has taken one off.
    assert read(row.core, asked, *stack) == [f"{label}\t0\t1\t64" for label in inside]
    told = ("icmp.ext.checksum.status", "icmp.mpls.label", "icmp.mpls.exp", "icmp.mpls.s", "icmp.mpls.ttl")
    [line] = read(
        row.core, f"icmp.type == 11 && mpls.label == {inside[0]} && !(mpls.label == {WEST[0]})", *stack, *told
    )
    assert line == f"{inside[0]}\t0\t1\t255\t1\t{EAST[0]},{inside[0]}\t6,0\t0,1\t1,64"
