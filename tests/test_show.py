"""What operators read: titles and rows as VPP prints them."""

import re

import pytest

from lab import INPUT_NODES

TITLES = {
    "show interface": "              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count",
    "show hardware-interfaces": "              Name                Idx   Link  Hardware",
    "show ip neighbors": "     Age                       IP                    Flags      Ethernet"
    "              Interface",
    "show errors": "   Count                  Node                              Reason               Severity",
    "show buffers": "Pool Name            Index NUMA  Size  Data Size  Total  Avail  Cached   Used",
    "show packet-generator": "Name               Enabled        Count     Parameters",
    "show ip fib summary": "    Prefix length         Count",
    "show runtime": "             Name                 State         Calls          Vectors        Suspends"
    "         Clocks       Vectors/Call",
}


@pytest.fixture
def busy(lab):
    """Two hosts that have talked, and a stream."""
    router, h1, _ = lab.two_hosts("tap")
    router.batch(
        "create packet-generator interface pg0\n"
        "packet-generator new { name s0 limit 1 interface pg0 data { "
        "IP4: 02:00:00:00:00:aa -> 02:00:00:00:00:01 UDP: 10.0.0.1 -> 10.0.0.2 UDP: 1 -> 2 } }\n"
    )
    assert h1.reaches("10.0.2.2")
    return router


@pytest.mark.parametrize("command", TITLES)
def test_titles_are_those_of_vpp(busy, command):
    lines = [line.rstrip() for line in busy.cli(command).splitlines()]
    if command == "show errors":
        # Its columns are as wide as what stands in them.
        assert TITLES[command].split() in [line.split() for line in lines]
        return
    assert TITLES[command] in lines


def test_show_interface_has_counters_below_each_other(busy):
    lines = busy.cli("show interface e0").splitlines()
    assert re.fullmatch(r"e0 {32}1      up          1500/0/0/0     rx packets {17,}\d+", lines[1])
    assert re.fullmatch(r" {68}rx bytes +\d+", lines[2])
    assert [line[68:84].rstrip() for line in lines[1:]] == ["rx packets", "rx bytes", "tx packets", "tx bytes", "ip4"]
    assert {len(line) for line in lines[1:]} == {100}


def test_show_interface_address_tells_state_and_prefix(busy):
    busy.cli("set interface state e1 down")
    assert busy.cli("show interface address") == "e0 (up):\n  L3 10.0.1.1/24\ne1 (dn):\n  L3 10.0.2.1/24\npg0 (dn):\n"
    assert busy.cli("show interface e0 address") == "e0 (up):\n  L3 10.0.1.1/24\n"


def test_show_ip_neighbors_has_vpps_columns(busy):
    row = busy.cli("show ip neighbors e1").splitlines()[1]
    assert re.fullmatch(r" +\d+\.\d{4} {16}10\.0\.2\.2 {19}D    [0-9a-f:]{17} e1", row)


def test_show_ip_fib_names_the_forwarding_objects(busy):
    shown = busy.cli("show ip fib")
    assert shown.startswith("ipv4-VRF:0, fib_index:0, flow hash:[src dst sport dport proto")
    host = shown[shown.index("10.0.2.2/32\n") :].splitlines()
    assert host[1] == "  unicast-ip4-chain"
    assert re.fullmatch(r"  \[@0\]: dpo-load-balance: \[proto:ip4 index:\d+ buckets:1\]", host[2])
    mac = r"[0-9a-f]{12}"
    assert re.fullmatch(
        rf"    \[0\] \[@\d+\]: ipv4 via 10\.0\.2\.2 e1: mtu:1500 next:\d+ flags:\[\] {mac}{mac}0800", host[3]
    )
    assert "10.0.1.1/32\n" in shown and "dpo-receive" in shown and "ipv4-glean: e0" in shown


def test_show_ip_fib_of_an_address_is_its_longest_match(busy):
    busy.cli("ip route add 16.0.0.0/8 via 10.0.2.2")
    busy.cli("ip route add 16.1.0.0/16 via 10.0.2.2")
    assert busy.cli("show ip fib 16.1.2.3").splitlines()[1] == "16.1.0.0/16 fib:0"
    assert busy.cli("show ip fib 16.2.2.3").splitlines()[1] == "16.0.0.0/8 fib:0"
    assert busy.cli("show ip fib 16.0.0.0/8").splitlines()[1] == "16.0.0.0/8 fib:0"


def test_show_runtime_adds_up(busy):
    nodes = {node["name"]: node for node in busy.cli_json("show runtime")["threads"][0]["nodes"]}
    # A packet that waited for ARP, one for each host at most, looks twice.
    assert nodes["ip4-lookup"]["vectors"] - nodes["ip4-input"]["vectors"] in (0, 1, 2)
    assert nodes["e1-tx"]["vectors"] == busy.counters("e1")["tx_packets"]
    busy.cli("clear runtime")
    nodes = {node["name"]: node for node in busy.cli_json("show runtime")["threads"][0]["nodes"]}
    assert "ip4-input" not in nodes


def test_show_node_lists_edges_both_ways(busy):
    shown = busy.cli("show node ip4-lookup")
    assert shown.startswith("node ip4-lookup, type internal, state active, index ")
    assert "    next-index  node-index               Node" in shown.splitlines()
    assert re.search(r"^ +\d+ +\d+ +ip4-rewrite$", shown, re.M)
    assert "    ip4-input (" in shown[shown.index("known previous nodes") :]


def test_show_version(busy):
    assert re.fullmatch(r"quiver v\d+\.\d+\.\d+(, commit [0-9a-f]{12}( with changes)?)?\n", busy.cli("show version"))
    assert f"Current PID:              {busy.process.pid}" in busy.cli("show version verbose")


def test_show_trace_follows_a_packet_from_node_to_node(lab, driver):
    router, h1, _ = lab.two_hosts(driver)
    assert h1.reaches("10.0.2.2")
    entry = INPUT_NODES[driver]
    router.cli("clear trace")
    router.cli(f"trace add {entry} 1")
    assert h1.reaches("10.0.2.2", count=1)
    shown = router.cli("show trace")
    nodes = re.findall(r"^\d\d:\d\d:\d\d:\d{6}: (\S+)$", shown, re.M)
    assert nodes == [entry, "ethernet-input", "ip4-input", "ip4-lookup", "ip4-rewrite", "e1-output", "e1-tx"]
    assert "  ICMP: 10.0.1.2 -> 10.0.2.2\n    tos 0x00, ttl 64, length 84, checksum 0x" in shown
    assert "  ICMP echo_request checksum 0x" in shown


def test_clear_makes_counters_read_zero(busy):
    for command in ("clear interfaces", "clear errors", "clear runtime"):
        busy.cli(command)
    assert set(busy.counters("e0").values()) == {0}
    assert busy.errors() == {}
