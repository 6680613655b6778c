"""Links of all kinds against Linux: /31, /32 at both ends, unnumbered, several addresses, a wire that is pulled out."""

import re

import pytest

from lab import CommandFailed, wait_until


@pytest.fixture
def link(lab, driver):
    """A router and a host, with a wire between e0 and eth0 and no addresses."""
    router = lab.router()
    host = lab.host("h1")
    router.attach(host, "e0", driver, "")
    router.cli("set interface state e0 up")
    return router, host


def answers_ping(router, address):
    return re.search(r" 0% packet loss", router.cli(f"ping {address} repeat 3 interval 0.1")) is not None


def test_a_31_works_both_ways(link):
    router, host = link
    router.cli("set interface ip address e0 198.51.100.0/31")
    host.ip("address", "add", "198.51.100.1/31", "dev", "eth0")
    assert host.reaches("198.51.100.0")
    assert answers_ping(router, "198.51.100.1")


def test_a_32_at_both_ends_works_with_routes_onto_the_link(link):
    router, host = link
    router.batch(
        "set interface ip address e0 192.0.2.1/32\n"
        "ip route add 192.0.2.2/32 via e0\n"
        "ip route add 198.51.100.0/24 via 192.0.2.2 e0 onlink\n"
    )
    host.ip("address", "add", "192.0.2.2/32", "dev", "eth0")
    host.ip("address", "add", "198.51.100.7/32", "dev", "lo")
    host.ip("route", "add", "default", "via", "192.0.2.1", "dev", "eth0", "onlink")
    assert host.reaches("192.0.2.1")
    assert answers_ping(router, "192.0.2.2")
    assert answers_ping(router, "198.51.100.7")


def test_a_gateway_on_the_link_needs_no_route_of_its_own(link):
    router, host = link
    router.cli("set interface ip address e0 192.0.2.1/32")
    with pytest.raises(CommandFailed, match="on no network of e0"):
        router.cli("ip route add 0.0.0.0/0 via 192.0.2.2 e0")
    router.cli("ip route add 0.0.0.0/0 via 192.0.2.2 e0 onlink")
    host.ip("address", "add", "192.0.2.2/32", "dev", "eth0")
    host.ip("address", "add", "203.0.113.9/32", "dev", "lo")
    host.ip("route", "add", "default", "via", "192.0.2.1", "dev", "eth0", "onlink")
    assert answers_ping(router, "203.0.113.9")
    assert host.reaches("192.0.2.1", "-I", "203.0.113.9")


def test_an_unnumbered_link_routes_between_loopbacks(lab, link, driver):
    router, host = link
    other = lab.host("h2")
    router.attach(other, "e1", driver, "")
    router.batch(
        "create loopback interface\n"
        "set interface ip address loop0 192.0.2.1/32\n"
        "set interface state loop0 up\n"
        "set interface unnumbered e0 use loop0\n"
        "set interface unnumbered e1 use loop0\n"
        "set interface state e1 up\n"
        "ip route add 192.0.2.11/32 via e0\n"
        "ip route add 192.0.2.12/32 via e1\n"
    )
    for number, peer in (11, host), (12, other):
        peer.ip("address", "add", f"192.0.2.{number}/32", "dev", "lo")
        peer.ip("route", "add", "default", "via", "192.0.2.1", "dev", "eth0", "onlink", "src", f"192.0.2.{number}")
    assert host.reaches("192.0.2.1")
    assert host.reaches("192.0.2.12")
    assert other.reaches("192.0.2.11")
    assert answers_ping(router, "192.0.2.12")
    assert "unnumbered, use loop0" in router.cli("show interface address e0")
    with pytest.raises(CommandFailed, match="lends its addresses to e0"):
        router.cli("delete interface loop0")


def test_secondary_addresses_answer_and_outlive_the_primary(link):
    router, host = link
    for prefix in ("10.1.0.1/24", "10.1.0.2/24", "10.2.0.1/24", "10.3.0.0/31"):
        router.cli(f"set interface ip address e0 {prefix}")
    for prefix in ("10.1.0.9/24", "10.2.0.9/24", "10.3.0.1/31"):
        host.ip("address", "add", prefix, "dev", "eth0")
    for address in ("10.1.0.1", "10.1.0.2", "10.2.0.1", "10.3.0.0"):
        assert host.reaches(address), address
    router.cli("set interface ip address del e0 10.1.0.1/24")
    assert host.reaches("10.1.0.2")
    assert not host.reaches("10.1.0.1", wait=1, count=1)
    assert answers_ping(router, "10.1.0.9")
    router.cli("set interface ip address del e0 all")
    assert not host.reaches("10.2.0.1", wait=1, count=1)


def test_traffic_leaves_a_dead_link_and_comes_back(lab, driver):
    router, h1, h2 = lab.two_hosts(driver)
    h3 = lab.host("h3")
    router.attach(h3, "e2", driver, "10.0.3.2/24")
    router.cli("set interface ip address e2 10.0.3.1/24")
    router.cli("set interface state e2 up")
    for peer, gateway in (h2, "10.0.2.1"), (h3, "10.0.3.1"):
        peer.ip("address", "add", "16.0.0.1/32", "dev", "lo")
        if peer is h3:
            peer.ip("route", "add", "default", "via", gateway)
    router.cli("ip route add 16.0.0.0/24 via 10.0.2.2 via 10.0.3.2")
    h2.ip("link", "set", "eth0", "down")
    # By itself: nobody gives a command that would have it look.
    wait_until(lambda: "e1: link is down" in router.log(), "the router sees the link down")
    # Whichever way a flow would take, it arrives.
    for source in range(8):
        assert h1.reaches("16.0.0.1", "-p", f"{source:02x}", count=1)
    assert "unresolved" in router.cli("show ip fib 10.0.2.0/24")
    h2.ip("link", "set", "eth0", "up")
    wait_until(lambda: "e1: link is up" in router.log(), "the router sees the link up")
    assert h1.reaches("10.0.2.1")
    wait_until(lambda: "unresolved" not in router.cli("show ip fib 10.0.2.0/24"), "its routes are back")


def test_routes_wait_in_a_saved_configuration_for_a_network_that_is_gone(lab):
    router = lab.router()
    router.batch(
        "create null interface name n0\n"
        "set interface state n0 up\n"
        "set interface ip address n0 10.0.0.1/24\n"
        "ip route add 16.0.0.0/24 via 10.0.0.2\n"
        "ip route add 17.0.0.0/24 via 10.0.0.2 n0\n"
        "set interface ip address del n0 10.0.0.1/24\n"
    )
    assert "routes wait for next hops on 10.0.0.0/24" in router.log()
    before = router.cli("show running-config")
    file = router.directory / "saved"
    router.cli(f"save {file}")
    router.cli("delete interface n0")
    router.cli("ip route del 16.0.0.0/24")
    router.cli(f"load {file}")
    assert router.cli("show running-config") == before
    router.cli("set interface ip address n0 10.0.0.1/24")
    assert "oper-flags:resolved" in router.cli("show ip fib 16.0.0.0/24")
    assert "oper-flags:resolved" in router.cli("show ip fib 17.0.0.0/24")
    router.cli("rollback")
