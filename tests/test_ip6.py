"""IPv6 through the router and to it, between Linux hosts."""

import re

import pytest

from lab import CommandFailed, wait_until


def test_the_router_answers_pings(two_hosts6):
    router, h1, h2 = two_hosts6
    assert h1.reaches("2001:db8:1::1")
    assert h2.reaches("2001:db8:2::1")
    assert router.errors()["echo replies sent"] == 6


def test_pings_pass_through_the_router(two_hosts6):
    router, h1, h2 = two_hosts6
    assert h1.reaches("2001:db8:2::2")
    assert h2.reaches("2001:db8:1::2")
    assert router.counters("e0")["ip6"] >= 6 and router.counters("e1")["ip6"] >= 6
    shown = router.cli("show interface e0")
    assert re.search(r"ip6 +\d+", shown), shown


def test_forwarding_takes_one_hop(two_hosts6):
    _, h1, _ = two_hosts6
    assert "ttl=64" in h1.ping("2001:db8:2::1", count=1).stdout
    assert "ttl=63" in h1.ping("2001:db8:2::2", count=1).stdout


def test_the_router_answers_on_its_link_only_address(two_hosts6):
    router, h1, _ = two_hosts6
    shown = router.cli("show ip6 interface e0")
    address = re.search(r"fe80::\S+", shown).group(0)
    assert h1.reaches(f"{address}%eth0")
    assert h1.reaches("ff02::1%eth0", count=1)


def test_pings_of_all_sizes_pass(two_hosts6):
    _, h1, _ = two_hosts6
    assert h1.reaches("2001:db8:2::2", count=1)
    for size in (0, 1, 17, 100, 1451, 1452):
        assert h1.reaches("2001:db8:2::2", "-s", size, count=1), f"{size} bytes through the router"
        assert h1.reaches("2001:db8:1::1", "-s", size, count=1), f"{size} bytes to the router"


def test_fragments_pass_through_the_router(two_hosts6):
    _, h1, _ = two_hosts6
    assert h1.reaches("2001:db8:2::2", "-s", 8000)


@pytest.mark.parametrize("size", [1453, 8000, 60_000])
def test_the_router_answers_large_pings(two_hosts6, size):
    """The request comes in fragments, and so goes the answer."""
    router, h1, _ = two_hosts6
    assert h1.reaches("2001:db8:1::1", "-s", size, wait=5)
    errors = router.errors()
    assert errors["successful reassemblies"] == 3 and errors["echo replies sent"] == 3
    assert errors["packet fragmented"] == 3
    assert h1.counter("Ip6ReasmOKs") == 3 and h1.counter("Ip6ReasmFails") == 0
    assert h1.counter("Icmp6InCsumErrors") == 0


def test_the_router_answers_large_pings_on_its_link_only_address(two_hosts6):
    router, h1, _ = two_hosts6
    address = re.search(r"fe80::\S+", router.cli("show ip6 interface e0")).group(0)
    assert h1.reaches(f"{address}%eth0", "-s", 8000, wait=5)


def test_a_long_answer_to_a_jumbo_link_is_not_cut(lab):
    router, h1, _ = lab.two_hosts6("tap")
    h1.ip("link", "set", "eth0", "mtu", 9000)
    router.cli("set interface mtu packet 9000 e0")
    assert h1.reaches("2001:db8:1::1", "-s", 8000, wait=5)
    assert "packet fragmented" not in router.errors() or router.errors()["packet fragmented"] == 0
    assert h1.reaches("2001:db8:1::1", "-s", 9000, wait=5)
    assert router.errors()["packet fragmented"] == 3


def test_neighbours_are_learned_and_shown(two_hosts6):
    router, h1, _ = two_hosts6
    assert h1.reaches("2001:db8:2::2", count=1)
    shown = router.cli("show ip6 neighbors")
    assert re.search(rf"2001:db8:1::2 +D[OW]? +{h1.mac()} +e0", shown), shown
    assert "2001:db8" not in router.cli("show ip4 neighbors")


def test_who_is_not_there_is_told_of(two_hosts6):
    router, h1, _ = two_hosts6
    shown = h1.ping("2001:db8:2::99", count=1, wait=6).stdout
    assert "Destination unreachable: Address unreachable" in shown, shown
    assert router.errors()["ICMPv6 address unreachable sent"] >= 1


def test_there_is_no_route(two_hosts6):
    _, h1, _ = two_hosts6
    assert "Destination unreachable: No route" in h1.ping("2001:db8:9::9", count=1).stdout


def test_the_hop_limit_is_told_of(two_hosts6):
    _, h1, _ = two_hosts6
    shown = h1.ping("2001:db8:2::2", "-t", 1, count=1).stdout
    assert "From 2001:db8:1::1 icmp_seq=1 Time exceeded: Hop limit" in shown, shown


def test_a_packet_too_big_is_told_of(lab, driver):
    router, h1, h2 = lab.two_hosts6(driver)
    router.cli("set interface mtu ip6 1300 e1")
    assert h1.reaches("2001:db8:2::2", "-s", 1200, count=1)
    shown = h1.ping("2001:db8:2::2", "-s", 1400, "-M", "do", count=2).stdout
    assert "Packet too big: mtu=1300" in shown, shown
    # Who knows the length cuts its packets.
    assert h1.reaches("2001:db8:2::2", "-s", 1400, count=2)


def test_a_static_neighbour_and_route(lab, driver):
    router, h1, h2 = lab.two_hosts6(driver)
    h2.speak_ip6("2001:db8:99::1/128", "lo")
    router.cli(f"ip6 neighbor e1 2001:db8:2::2 {h2.mac()}")
    router.cli("ip route add 2001:db8:99::/48 via 2001:db8:2::2")
    assert h1.reaches("2001:db8:99::1")
    shown = router.cli("show ip6 fib 2001:db8:99::1")
    assert "2001:db8:99::/48" in shown and "ipv6 via 2001:db8:2::2 e1" in shown, shown


def test_a_route_by_a_link_local_next_hop(lab, driver):
    router, h1, h2 = lab.two_hosts6(driver)
    h2.speak_ip6("2001:db8:99::1/128", "lo")
    h2.ip("address", "add", "fe80::99/64", "dev", "eth0", "nodad")
    with pytest.raises(CommandFailed, match="name its interface"):
        router.cli("ip route add 2001:db8:99::/48 via fe80::99")
    router.cli("ip route add 2001:db8:99::/48 via fe80::99 e1")
    assert h1.reaches("2001:db8:99::1")


def test_the_configuration_comes_back(lab, driver):
    router, h1, _ = lab.two_hosts6(driver)
    router.cli("ip route add 2001:db8:99::/48 via 2001:db8:2::2")
    router.cli("set ip6 link-local address e0 fe80::7")
    shown = router.cli("show running-config")
    for line in (
        "set interface ip address e0 2001:db8:1::1/64",
        "set ip6 link-local address e0 fe80::7",
        "ip route add 2001:db8:99::/48 via 2001:db8:2::2",
    ):
        assert line in shown, shown
    assert h1.reaches("fe80::7%eth0")
    router.cli("set interface ip address del e0 all")
    wait_until(lambda: not h1.reaches("2001:db8:1::1", count=1, wait=1), "the address is gone")


def test_a_host_that_takes_an_address_of_the_router_is_told(two_hosts6):
    router, h1, h2 = two_hosts6
    h1.set("net/ipv6/conf/eth0/accept_dad", 1)
    h1.ip("address", "add", "2001:db8:1::1/64", "dev", "eth0")
    wait_until(lambda: "dadfailed" in h1.ip("address", "show", "dev", "eth0"), "the host finds that it is taken")
    assert h2.reaches("2001:db8:1::2")


def test_the_router_does_not_take_an_address_of_a_host(two_hosts6):
    router, h1, h2 = two_hosts6
    h1.speak_ip6("2001:db8:1::77/64")
    router.cli("set interface ip address e0 2001:db8:1::77/64")
    shown = lambda: router.cli("show ip6 interface e0")
    wait_until(
        lambda: f"2001:db8:1::77/64 [duplicate, {h1.mac()} has it]" in shown(), "the router finds that it is taken"
    )
    assert h2.reaches("2001:db8:1::77"), "the host has it still"
    # When the host gives it up, and the interface comes back, the router takes it.
    h1.ip("address", "del", "2001:db8:1::77/64", "dev", "eth0")
    router.cli("set interface state e0 down")
    router.cli("set interface state e0 up")
    router.wait_for_addresses6()
    assert "duplicate" not in shown()
    assert h1.reaches("2001:db8:1::77")


def test_hosts_find_addresses_routes_and_name_servers_by_themselves(lab, driver):
    router = lab.router()
    h1 = lab.host("h1")
    router.attach(h1, "e0", driver, None)
    h1.set("net/ipv6/conf/eth0/disable_ipv6", 0)
    for setting, value in (("accept_ra", 2), ("accept_ra_rt_info_max_plen", 64), ("router_solicitation_delay", 0)):
        h1.set(f"net/ipv6/conf/eth0/{setting}", value)
    for line in (
        "set interface ip address e0 2001:db8:1::1/64",
        "ip6 nd e0 prefix 2001:db8:1::/64 7200 3600",
        "ip6 nd e0 prefix 2001:db8:2::/64 no-autoconfig",
        "ip6 nd e0 rdnss 2001:db8:1::53",
        "ip6 nd e0 ra-lifetime 900 ra-hop-limit 33 ra-preference high ra-interval 60 30",
        "ip6 nd e0 no ra-suppress",
        "set interface state e0 up",
    ):
        router.cli(line)
    router.wait_for_addresses6()
    addresses = lambda: h1.ip("-6", "address", "show", "dev", "eth0")
    wait_until(
        lambda: re.search(
            r"2001:db8:1:\S+/64 scope global \S*\s*mngtmpaddr|2001:db8:1:\S+/64 scope global dynamic", addresses()
        ),
        "the host has an address",
    )
    wait_until(lambda: "tentative" not in addresses(), "the host uses it")
    assert re.search(r"valid_lft 7[12]\d\dsec preferred_lft 3[56]\d\dsec", addresses()), addresses()
    assert "2001:db8:2:" not in addresses(), "no address of a prefix that says so"
    routes = h1.ip("-6", "route", "show")
    link_local = re.search(r"fe80::\S+", router.cli("show ip6 interface e0")).group(0)
    default = next(line for line in routes.splitlines() if line.startswith("default"))
    assert f"via {link_local} dev eth0 proto ra" in default and "hoplimit 33" in default and "pref high" in default, (
        routes
    )
    assert re.search(r"expires (8\d\d|900)sec", default), default
    assert "2001:db8:2::/64 dev eth0" in routes, routes
    assert h1.reaches("2001:db8:1::1")
    # The router that takes its leave is no default router any more.
    router.cli("ip6 nd e0 ra-suppress")
    wait_until(lambda: "default" not in h1.ip("-6", "route", "show"), "the host has no default route")


def test_hosts_are_told_when_the_router_falls_silent(lab):
    """By a port that outlives the router: else the host would lose its route with the link."""
    router, h1, _ = lab.two_hosts6("af_packet")
    h1.set("net/ipv6/conf/eth0/accept_ra", 2)
    default = lambda: h1.ip("-6", "route", "show", "default")
    router.cli("ip6 nd e0 no ra-suppress")
    wait_until(lambda: "proto ra" in default(), "the host has a default route")
    router.cli("set interface state e0 down")
    wait_until(lambda: "proto ra" not in default(), "it has none by an interface that is down")
    router.cli("set interface state e0 up")
    wait_until(lambda: "proto ra" in default(), "it has one again")
    router.stop()
    wait_until(lambda: "proto ra" not in default(), "it has none by a router that ended")


@pytest.mark.slow
def test_hosts_that_ask_are_answered(lab, driver):
    router, h1, _ = lab.two_hosts6(driver)
    router.cli("ip6 nd e0 no ra-suppress")
    h1.set("net/ipv6/conf/eth0/accept_ra", 2)
    h1.set("net/ipv6/conf/eth0/router_solicitation_delay", 0)
    h1.ip("link", "set", "eth0", "down")
    h1.ip("link", "set", "eth0", "up")
    asked = lambda: router.cli_json("show ip6 ra e0")["interfaces"][0]["solicitations"]
    wait_until(lambda: asked() > 0, "the host asks")
    wait_until(lambda: "proto ra" in h1.ip("-6", "route", "show", "default"), "the host is answered")


@pytest.mark.slow
def test_a_switch_that_looks_for_listeners_finds_the_router(lab, driver):
    """A bridge that passes group frames on to listeners only, and asks for them itself."""
    router = lab.router()
    h1 = lab.host("h1")
    router.attach(h1, "e0", driver, None)
    router.cli("set interface ip address e0 2001:db8:1::1/64")
    router.cli("set interface state e0 up")
    router.wait_for_addresses6()
    h1.set("net/ipv6/conf/default/disable_ipv6", 0)
    # It asks each second for as long as the test goes: what it asks before it has an address of its own is lost.
    h1.ip(
        "link",
        "add",
        "br0",
        "type",
        "bridge",
        "mcast_snooping",
        "1",
        "mcast_querier",
        "1",
        "mcast_startup_query_interval",
        "100",
        "mcast_startup_query_count",
        "100",
        "mcast_query_response_interval",
        "100",
    )
    h1.ip("link", "set", "eth0", "master", "br0")
    h1.ip("link", "set", "br0", "up")
    groups = lambda: h1.run("bridge", "mdb", "show").stdout
    wait_until(
        lambda: "grp ff02::1:ff00:1 " in groups(),
        "the switch knows who listens to the group of the router's address",
        seconds=15,
    )
    assert "port eth0 grp ff02::1:ff00:1" in groups()
    # A further address is told of as it comes.
    router.cli("set interface ip address e0 2001:db8:1::abc/64")
    wait_until(lambda: "grp ff02::1:ff00:abc " in groups(), "and of the new one")
    router.cli("set interface ip address del e0 2001:db8:1::abc/64")
    wait_until(lambda: "grp ff02::1:ff00:abc " not in groups(), "until it goes")


@pytest.mark.slow
def test_a_host_of_the_network_behind_another_interface_is_reached_by_proxy(two_hosts6):
    """As RFC 4861 7.2.8 has it: h1 takes h2 to be on its link."""
    router, h1, h2 = two_hosts6
    moved = "2001:db8:1::9"
    h2.ip("-6", "addr", "add", f"{moved}/128", "dev", "eth0", "nodad")
    h2.ip("-6", "route", "replace", "2001:db8:1::/64", "via", "2001:db8:2::1", "src", moved)
    assert not h1.reaches(moved, count=1)
    router.cli(f"set ip6 nd proxy {moved} e1")
    h1.ip("-6", "neigh", "flush", "dev", "eth0")
    assert h1.reaches(moved)
    assert "router" not in h1.ip("-6", "neigh", "show", moved)
    # h1 looks whether it is still there: it asks the address itself.
    before = router.errors()["neighbor advertisements sent"]
    [mac] = re.findall(r"lladdr (\S+)", h1.ip("-6", "neigh", "show", moved))
    h1.ip("-6", "neigh", "replace", moved, "lladdr", mac, "dev", "eth0", "nud", "probe")
    wait_until(lambda: "REACHABLE" in h1.ip("-6", "neigh", "show", moved), "the router says so")
    assert router.errors()["neighbor advertisements sent"] > before
    router.cli(f"set ip6 nd proxy {moved} e1 del")
    h1.ip("-6", "neigh", "flush", "dev", "eth0")
    assert not h1.reaches(moved, count=1)
