"""Echo requests to the router and through it."""

import re


def test_the_router_answers_pings(two_hosts):
    router, h1, h2 = two_hosts
    assert h1.reaches("10.0.1.1")
    assert h2.reaches("10.0.2.1")
    assert router.errors()["echo replies sent"] == 6


def test_the_router_answers_pings_to_its_far_address(two_hosts):
    _, h1, _ = two_hosts
    assert h1.reaches("10.0.2.1")


def test_pings_pass_through_the_router(two_hosts):
    router, h1, h2 = two_hosts
    assert h1.reaches("10.0.2.2")
    assert h2.reaches("10.0.1.2")
    assert router.counters("e0")["ip4"] >= 6 and router.counters("e1")["ip4"] >= 6


def test_the_first_ping_waits_for_arp_and_is_not_lost(two_hosts):
    _, h1, _ = two_hosts
    shown = h1.ping("10.0.2.2", count=1).stdout
    assert "1 received" in shown
    # Two ARP exchanges, not a retry of either: those come a second later.
    assert float(re.search(r"time=([\d.]+) ms", shown).group(1)) < 500


def test_forwarding_takes_one_from_the_ttl(two_hosts):
    _, h1, _ = two_hosts
    assert "ttl=64" in h1.ping("10.0.2.1", count=1).stdout
    assert "ttl=63" in h1.ping("10.0.2.2", count=1).stdout


def test_pings_of_all_sizes_pass(two_hosts):
    _, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2", count=1)
    for size in (0, 1, 17, 18, 19, 100, 1471, 1472):
        assert h1.reaches("10.0.2.2", "-s", size, count=1), f"{size} bytes through the router"
        assert h1.reaches("10.0.1.1", "-s", size, count=1), f"{size} bytes to the router"


def test_fragments_pass_through_the_router(two_hosts):
    _, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2", "-s", 8000)
