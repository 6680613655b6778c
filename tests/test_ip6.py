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


def test_neighbours_are_learned_and_shown(two_hosts6):
    router, h1, _ = two_hosts6
    assert h1.reaches("2001:db8:2::2", count=1)
    shown = router.cli("show ip6 neighbors")
    assert re.search(rf"2001:db8:1::2 +D +{h1.mac()} +e0", shown), shown
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
    wait_until(lambda: f"2001:db8:1::77/64 [duplicate, {h1.mac()} has it]" in shown(), "the router finds that it is taken")
    assert h2.reaches("2001:db8:1::77"), "the host has it still"
    # When the host gives it up, and the interface comes back, the router takes it.
    h1.ip("address", "del", "2001:db8:1::77/64", "dev", "eth0")
    router.cli("set interface state e0 down")
    router.cli("set interface state e0 up")
    router.wait_for_addresses6()
    assert "duplicate" not in shown()
    assert h1.reaches("2001:db8:1::77")
