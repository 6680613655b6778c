"""VRFs of Linux are routing tables of the router, and the other way round. The router and its peers are in a guest with
Debian's kernel, for the kernel that runs the tests may have no VRFs."""

import subprocess

import pytest

from guest import Guest, GuestRouter
from lab import QUIVER, wait_until


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """One guest for all tests of this file."""
    processes = []

    def start(*command, **options):
        processes.append(subprocess.Popen(command, text=True, **options))
        return processes[0]

    programs = (QUIVER, "dash", "ip", "ping")
    guest = Guest(start, tmp_path_factory.mktemp("guest"), ip6=True, programs=programs, memory=512)
    yield guest
    processes[0].kill()
    processes[0].wait()


@pytest.fixture
def router(machine):
    router = GuestRouter(machine)
    router.cli("lcp create e0 host-if xe0")
    router.linux("ip link set xe0 up && ip address add 10.0.1.1/24 dev xe0")
    yield router
    router.finish()


def member(router, vid, vrf, *networks):
    """A VLAN link that is a port of a VRF, and its counterpart in the peer with an address of each network."""
    name = f"v{vid}"
    router.linux(f"ip link add link xe0 name {name} type vlan id {vid} && ip link set {name} master {vrf}")
    router.linux(f"ip link set {name} up")
    router.peer(f"ip link add link p0 name {name} type vlan id {vid} && ip link set {name} up")
    for network in networks:
        family, length = ("-6", 64) if ":" in network else ("-4", 24)
        router.linux(f"ip {family} address add {network}1/{length} dev {name}")
        router.peer(f"ip {family} address add {network}2/{length} dev {name}")


def tables(router):
    """The numbers of the IPv4 tables."""
    return [table["table_id"] for table in router.cli_json("show ip table")["tables"]]


def tables_of(router, name):
    """The tables of an interface, of both families."""
    shown = router.cli_json("show interface address")["interfaces"]
    return next((one["table"], one["table6"]) for one in shown if one["name"] == name)


def leads(router, prefix, table=0):
    """What the router does with a prefix; empty: it has no such route."""
    shown = router.cli(f"show ip fib table {table} {prefix}")
    return shown if prefix in shown else ""


def audited(router):
    wait_until(lambda: router.cli_json("show lcp audit")["differences"] == 0, "the router has what Linux has")


@pytest.mark.slow
def test_a_vrf_of_linux_is_a_table_of_the_router(router):
    before = router.cli("show running-config")
    router.linux("ip link add red type vrf table 10 && ip link set red up")
    member(router, 101, "red", "10.0.9.", "2001:db8:9::")
    member(router, 102, "red", "10.0.10.")
    wait_until(lambda: tables_of(router, "e0.101") == (10, 10), "the interface is in the table")
    # The same addresses may be in another VRF.
    router.linux("ip link add blue type vrf table 1000000 && ip link set blue up")
    member(router, 103, "blue")
    router.linux("ip address add 10.0.9.1/24 dev v103")
    wait_until(lambda: tables_of(router, "e0.103") == (1_000_000, 1_000_000), "the other one, too")
    routes = (
        "ip route add vrf red 10.7.0.0/16 via 10.0.9.2",
        "ip -6 route add vrf red 2001:db8:7::/48 via 2001:db8:9::2",
        "ip route add vrf red unreachable default metric 4278198272",
        "ip route add vrf blue 10.7.0.0/16 via 10.0.9.2",
        # Out of the main table, and from one VRF into another.
        "ip route add 10.7.0.0/16 dev red",
        "ip route add vrf red 10.11.0.0/16 dev blue",
    )
    router.linux(" && ".join(routes))
    wait_until(lambda: "e0.101" in leads(router, "10.7.0.0/16", 10), "a route of the VRF")
    wait_until(lambda: "e0.103" in leads(router, "10.7.0.0/16", 1_000_000), "one of the other")
    assert "lookup in ipv4-VRF:10" in leads(router, "10.7.0.0/16")
    assert "lookup in ipv4-VRF:1000000" in leads(router, "10.11.0.0/16", 10)
    assert "e0.101" in router.cli("show ip6 fib table 10 2001:db8:7::/48")
    audited(router)
    assert router.reaches(router.peer, "10.0.9.1") and router.reaches(router.peer, "2001:db8:9::1")
    # From one port to the other, by the VRF. The peer's other port is in a namespace of its own.
    router.guest.sh("ip netns add behind")
    router.peer("ip link set v102 netns behind")
    router.inside("behind", "ip link set v102 up && ip address add 10.0.10.2/24 dev v102")
    router.inside("behind", "ip route add default via 10.0.10.1")
    router.peer("ip route add 10.0.10.0/24 via 10.0.9.1")
    assert router.reaches(router.peer, "10.0.10.2")
    assert "ip4-lookup" in router.cli("show runtime")
    # None of this is configuration.
    assert router.cli("show running-config") == before
    router.guest.sh("ip netns delete behind")
    # With the VRF its table goes. A new one with that number begins without what was there.
    router.linux("ip link delete red")
    wait_until(lambda: tables(router) == [0, 1_000_000], "the table went")
    assert tables_of(router, "e0.101") == (0, 0)
    audited(router)
    router.linux("ip route flush table 10", check=False)
    router.linux("ip link add green type vrf table 10 && ip link set green up && ip link set v101 master green")
    wait_until(lambda: tables_of(router, "e0.101") == (10, 10), "the interface is in the new table")
    audited(router)
    assert "10.7.0.0/16" not in router.cli("show ip fib table 10")


TABLE_30 = """create sub-interfaces e0 105 dot1q 105 exact-match
ip table add 30
set interface ip table e0.105 30
set interface ip address e0.105 10.5.0.1/24
set interface state e0.105 up
lcp create e0.105 host-if five""".splitlines()


@pytest.mark.slow
def test_a_table_of_an_interface_is_a_vrf_in_linux(router):
    router.cli("lcp lcp-sync on")
    for line in TABLE_30:
        router.cli(line)
    assert "master vrf30" in router.linux("ip link show five")
    router.linux("ip route add vrf vrf30 10.6.0.0/16 via 10.5.0.2")
    wait_until(lambda: "e0.105" in leads(router, "10.6.0.0/16", 30), "a route of the VRF")
    audited(router)
    # A link is a port of whatever VRF somebody in Linux wants; what was stated is configuration still.
    router.linux("ip link add red type vrf table 10 && ip link set red up && ip link set five master red")
    wait_until(lambda: tables_of(router, "e0.105") == (10, 10), "Linux has the last word")
    assert "set interface ip table e0.105 30" in router.cli("show running-config")
    router.linux("ip link set five master vrf30")
    wait_until(lambda: tables_of(router, "e0.105") == (30, 30), "it is back")
    # Stated about a table that only Linux has: it is stated from then on.
    assert "ip table add 10\n" not in router.cli("show running-config")
    router.cli("ip route add 10.66.0.0/16 table 10 via drop")
    assert "ip table add 10\n" in router.cli("show running-config")
    router.linux("ip link delete red")
    assert 10 in tables(router)
    router.cli("ip table del 10")
    assert tables(router) == [0, 30]
    # Out of it again. The VRF was the router's, and goes with its last port.
    router.cli("set interface ip address del e0.105 10.5.0.1/24")
    router.cli("set interface ip table e0.105 0")
    wait_until(lambda: "vrf30" not in router.linux("ip link show"), "no VRF is left")
    wait_until(lambda: tables_of(router, "e0.105") == (0, 0), "the interface is in no table")
    audited(router)
    # One that Linux has already serves, whatever its name.
    router.linux("ip link add gold type vrf table 40 && ip link set gold up")
    router.cli("ip table add 40")
    router.cli("set interface ip table e0.105 40")
    assert "master gold" in router.linux("ip link show five") and "vrf40" not in router.linux("ip link show")
    router.cli("set interface ip table e0.105 0")
    assert "gold" in router.linux("ip link show"), "it is not the router's"
    # What somebody in Linux wants stays when the router begins to tell Linux again: no table is stated.
    router.linux("ip link set five master gold")
    wait_until(lambda: tables_of(router, "e0.105") == (40, 40), "the interface is in the table")
    router.cli("lcp lcp-sync off")
    router.cli("lcp lcp-sync on")
    assert "master gold" in router.linux("ip link show five")
    # A port of a bridge stays one.
    router.linux("ip link add br0 type bridge && ip link set five master br0")
    wait_until(lambda: tables_of(router, "e0.105") == (0, 0), "it left the VRF")
    router.cli("set interface ip table e0.105 40")
    assert "master br0" in router.linux("ip link show five")


@pytest.mark.slow
def test_a_router_that_starts_again_finds_the_vrf_of_the_one_before(router):
    router.cli("lcp lcp-sync on")
    for line in TABLE_30:
        router.cli(line)
    assert "master vrf30" in router.linux("ip link show five")
    # Without a hold time its links go with it, and VRFs stay.
    router.kill()
    assert "vrf30" in router.linux("ip link show") and "five" not in router.linux("ip link show")
    router.start()
    for line in ["create host-interface w0 name e0", "lcp lcp-sync on", "lcp create e0 host-if xe0", *TABLE_30]:
        router.cli(line)
    assert "master vrf30" in router.linux("ip link show five")
    wait_until(lambda: tables_of(router, "e0.105") == (30, 30), "the interface is in the table")
    audited(router)
