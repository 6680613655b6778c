"""What Linux has of the sides of pairs is the router's: states, addresses, neighbours, routes, by netlink(7)."""

import json
import time

import pytest

from lab import CommandFailed, wait_until


def paired(lab, driver="tap", extra="", sync=False):
    """h1 -- e0 [router] e1 -- h2. In the namespace `linux`, xe0 and xe1 are e0 and e1. Nothing else is stated."""
    router = lab.router(extra=extra)
    linux = lab.host("linux")
    router.cli(f"lcp default netns {linux.namespace}")
    if sync:
        router.cli("lcp lcp-sync on")
    hosts = []
    for number in (0, 1):
        host = lab.host(f"h{number + 1}")
        router.attach(host, f"e{number}", driver, f"10.0.{number + 1}.2/24")
        host.ip("route", "add", "default", "via", f"10.0.{number + 1}.1")
        host.speak_ip6(f"2001:db8:{number + 1}::2/64", router=f"2001:db8:{number + 1}::1")
        hosts.append(host)
        router.cli(f"lcp create e{number} host-if xe{number}")
    return router, linux, *hosts


def addressed(lab, driver="tap", **options):
    """The same; in Linux both are up, with addresses of both families."""
    router, linux, h1, h2 = paired(lab, driver, **options)
    for number in (0, 1):
        linux.ip("link", "set", f"xe{number}", "up")
        linux.ip("address", "add", f"10.0.{number + 1}.1/24", "dev", f"xe{number}")
        linux.speak_ip6(f"2001:db8:{number + 1}::1/64", f"xe{number}")
    wait_until(lambda: agrees(router) and "2001:db8:2::1/64" in stations(router, "e1"), "the router has the addresses")
    router.wait_for_addresses6()
    return router, linux, h1, h2


def stations(router, name):
    """The addresses of an interface of the router."""
    return router.cli(f"show interface addr {name}").split()


def audit(router):
    return router.cli_json("show lcp audit")


def agrees(router):
    return audit(router)["differences"] == 0


def settled(router, linux=None):
    """Everything that Linux said was heard, and the router has what Linux has. Gives the routes that it should have."""
    wait_until(lambda: agrees(router), "the router has what Linux has")
    assert followed(router)["malformed"] == 0
    return audit(router)["routes"]


def followed(router):
    return router.cli_json("show lcp netlink")[0]


def paths(router, prefix, source="lcp-rt"):
    """How the router shows the paths that Linux has for a prefix."""
    command = f"show ip6 fib {prefix}" if ":" in prefix else f"show ip fib {prefix}"
    try:
        tables = router.cli_json(command)["tables"]
    except CommandFailed as error:
        assert "no route" in str(error), error
        return []
    for table in tables:
        for route in table["routes"]:
            if route["prefix"] == prefix:
                lists = [one["path_list"] for one in route["sources"] if one["source"] == source]
                return sorted(path["path"] + f" *{path['weight']}" for one in lists for path in one["paths"])
    return []


@pytest.mark.parametrize("driver", ["tap", "af_packet"])
def test_linux_alone_configures_the_router(lab, driver):
    router, linux, h1, h2 = addressed(lab, driver)
    assert h1.reaches("10.0.2.2") and h1.reaches("2001:db8:2::2")
    stated = router.cli("show running-config")
    assert "address" not in stated and "state" not in stated, "what Linux has is not saved"
    # A network behind h2, which only Linux has a route to.
    h2.ip("address", "add", "192.0.2.1/32", "dev", "lo")
    h2.speak_ip6("2001:db8:ff::1/128", "lo")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2")
    linux.ip("-6", "route", "add", "2001:db8:ff::/48", "via", "2001:db8:2::2")
    assert settled(router) == 2
    before = router.counters("e1")["tx_packets"]
    assert h1.reaches("192.0.2.1") and h1.reaches("2001:db8:ff::1")
    assert router.counters("e1")["tx_packets"] >= before + 2, "the router forwards, and not Linux"
    linux.ip("route", "del", "192.0.2.0/24")
    assert settled(router) == 1
    assert not h1.reaches("192.0.2.1", count=1, wait=1)
    assert "routes are taken" in router.cli("show lcp netlink")


def test_state_mtu_and_ethernet_address_follow_linux(lab):
    router, linux, h1, _ = addressed(lab)
    linux.ip("link", "set", "xe0", "mtu", "1400")
    wait_until(lambda: router.interface("e0")["mtu"] == 1400, "the MTU is that of Linux")
    linux.ip("link", "set", "xe0", "address", "02:00:00:00:07:01")
    wait_until(lambda: "02:00:00:00:07:01" in router.cli("show hardware-interfaces e0"), "the address is that of Linux")
    assert h1.reaches("10.0.1.1")
    # More than the wire carries.
    linux.ip("link", "set", "xe0", "mtu", "9000")
    mtu = lambda: json.loads(linux.ip("-json", "link", "show", "xe0"))[0]["mtu"]
    wait_until(lambda: mtu() == router.interface("e0")["mtu"], "Linux hears what the wire carries")
    linux.ip("link", "set", "xe0", "down")
    wait_until(lambda: router.interface("e0")["state"] == "down", "the state is that of Linux")
    linux.ip("link", "set", "xe0", "up")
    wait_until(lambda: router.interface("e0")["state"] == "up", "the state is that of Linux")
    stated = router.cli("show running-config")
    assert not any(word in stated for word in ("mtu", "mac", "state")), stated


def test_what_operators_state_stays_when_linux_says_otherwise(lab):
    router, linux, h1, _ = paired(lab, sync=True)
    linux.speak_ip6(interface="xe0")
    router.cli("set interface state e0 up")
    router.cli("set interface ip address e0 10.0.1.1/24")
    router.cli("set interface ip address e0 2001:db8:1::1/64")
    stated = router.cli("show running-config")
    wait_until(lambda: "10.0.1.1/24" in linux.ip("address", "show", "xe0"), "Linux has the address")
    assert h1.reaches("10.0.1.1")
    # The router goes down and up: Linux forgets IPv6 addresses of an interface that is down.
    router.cli("set interface state e0 down")
    router.cli("set interface state e0 up")
    wait_until(lambda: "2001:db8:1::1/64" in linux.ip("address", "show", "xe0"), "Linux has the address again")
    assert router.cli("show running-config") == stated
    # Linux goes down and up.
    linux.ip("link", "set", "xe0", "down")
    wait_until(lambda: router.interface("e0")["state"] == "down", "the state is that of Linux")
    assert router.cli("show running-config") == stated
    linux.ip("link", "set", "xe0", "up")
    wait_until(lambda: router.interface("e0")["state"] == "up", "the state is that of Linux")
    wait_until(lambda: "2001:db8:1::1/64" in linux.ip("address", "show", "xe0"), "Linux has the address again")
    assert router.cli("show running-config") == stated
    # An address that Linux has first, and an operator states later, is saved.
    linux.ip("address", "add", "10.7.0.1/24", "dev", "xe0")
    wait_until(lambda: "10.7.0.1/24" in stations(router, "e0"), "the router has the address")
    assert "10.7.0.1" not in router.cli("show running-config")
    router.cli("set interface ip address e0 10.7.0.1/24")
    assert "10.7.0.1/24" in router.cli("show running-config")
    # One that Linux loses is gone for both.
    linux.ip("address", "del", "10.7.0.1/24", "dev", "xe0")
    wait_until(lambda: "10.7.0.1/24" not in stations(router, "e0"), "the router has lost the address")
    assert router.cli("show running-config") == stated


def test_an_interface_that_was_down_for_a_moment_keeps_what_operators_state(lab):
    router, linux, *_ = paired(lab, sync=True)
    linux.speak_ip6(interface="xe0")
    router.cli("set interface state e0 up")
    router.cli("set interface ip address e0 2001:db8:1::1/64")
    stated = router.cli("show running-config")
    has = lambda: "2001:db8:1::1/64" in linux.ip("address", "show", "xe0")
    wait_until(has, "Linux has the address")
    for _ in range(5):
        linux.run("sh", "-c", "ip link set xe0 down; ip link set xe0 up")
        wait_until(has, "Linux has the address again")
        wait_until(lambda: router.interface("e0")["state"] == "up", "the state is that of Linux")
    assert router.cli("show running-config") == stated


def test_an_address_may_move(lab):
    router, linux, *_ = addressed(lab)
    for _ in range(3):
        for there, here in [("xe0", "xe1"), ("xe1", "xe0")]:
            linux.ip("address", "add", "10.9.0.1/24", "dev", here)
            wait_until(lambda: "10.9.0.1/24" in stations(router, here[1:]), "the router has the address")
            # It is there twice for a moment.
            linux.ip("address", "add", "10.9.0.1/24", "dev", there)
            linux.ip("address", "del", "10.9.0.1/24", "dev", here)
            wait_until(lambda: "10.9.0.1/24" in stations(router, there[1:]), "the router has the address")
            linux.ip("address", "del", "10.9.0.1/24", "dev", there)
            wait_until(lambda: agrees(router), "the router has what Linux has")


def test_what_came_from_linux_goes_with_the_pair(lab):
    router, linux, *_ = addressed(lab)
    before = router.cli("show hardware-interfaces e0")
    linux.ip("link", "set", "xe0", "mtu", "1400")
    linux.ip("link", "set", "xe0", "address", "02:00:00:00:07:01")
    linux.ip("neigh", "add", "10.0.1.77", "lladdr", "02:00:00:00:00:77", "dev", "xe0", "nud", "permanent")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.1.2")
    linux.ip("route", "add", "blackhole", "192.0.3.0/24")
    wait_until(lambda: "10.0.1.77" in router.cli("show ip neighbors"), "the router has the neighbour")
    wait_until(lambda: router.interface("e0")["mtu"] == 1400, "the MTU is that of Linux")
    assert settled(router) == 2
    for number in (0, 1):
        router.cli(f"lcp delete e{number}")
    wait_until(lambda: paths(router, "192.0.3.0/24") == [], "the routes are gone")
    assert paths(router, "192.0.2.0/24") == []
    e0 = router.interface("e0")
    assert (e0["state"], e0["mtu"]) == ("down", 1500)
    assert "10.0.1.1/24" not in stations(router, "e0") and "10.0.1.77" not in router.cli("show ip neighbors")
    assert "02:00:00:00:07:01" not in router.cli("show hardware-interfaces e0")
    assert before.split("Ethernet address")[1].split()[0] in router.cli("show hardware-interfaces e0")


def test_a_side_that_is_deleted_in_linux_takes_its_addresses_along(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("link", "del", "xe0")
    wait_until(lambda: "10.0.1.1/24" not in stations(router, "e0"), "the address is gone")
    assert "10.0.2.1/24" in stations(router, "e1")
    router.cli("lcp delete e0")
    router.cli("lcp create e0 host-if xe0")
    linux.ip("link", "set", "xe0", "up")
    linux.ip("address", "add", "10.0.1.1/24", "dev", "xe0")
    wait_until(lambda: "10.0.1.1/24" in stations(router, "e0"), "the new one is followed")


def test_a_small_mtu_ends_ipv6(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("link", "set", "xe0", "mtu", "1000")
    wait_until(lambda: router.interface("e0")["mtu"] == 1000, "the MTU is that of Linux")
    assert "2001:db8:1::1/64" not in stations(router, "e0"), "as in Linux"
    settled(router)


def test_the_link_local_address_is_that_of_linux(lab):
    router, linux, h1, _ = paired(lab)
    linux.set("net/ipv6/conf/xe0/addr_gen_mode", 3)
    linux.set("net/ipv6/conf/xe0/stable_secret", "2001:db8::7")
    linux.speak_ip6(interface="xe0")
    linux.ip("link", "set", "xe0", "up")
    shown = lambda: json.loads(linux.ip("-json", "-6", "address", "show", "xe0"))[0]["addr_info"]
    own = lambda: [one["local"] for one in shown()]
    wait_until(lambda: f"{own()[0]}" in router.cli("show ip6 interface e0"), "the link-local address is that of Linux")
    wait_until(lambda: h1.reaches(f"{own()[0]}%eth0", count=1), "Linux is reached by it")
    linux.ip("address", "flush", "dev", "xe0")
    linux.ip("address", "add", "fe80::77/64", "dev", "xe0", "nodad")
    wait_until(lambda: "fe80::77" in router.cli("show ip6 interface e0"), "the link-local address is that of Linux")
    assert "link-local" not in router.cli("show running-config")
    linux.ip("link", "set", "xe0", "down")
    wait_until(lambda: "fe80::77" not in router.cli("show ip6 interface"), "IPv6 goes with the address")


def test_neighbours_for_ever_are_the_routers_too(lab):
    router, linux, h1, h2 = addressed(lab)
    linux.ip("neigh", "add", "10.0.2.77", "lladdr", "02:00:00:00:00:77", "dev", "xe1", "nud", "permanent")
    linux.ip("neigh", "add", "2001:db8:2::77", "lladdr", "02:00:00:00:00:77", "dev", "xe1", "nud", "permanent")
    known = lambda: router.cli("show ip neighbors")
    wait_until(lambda: "10.0.2.77" in known() and "2001:db8:2::77" in known(), "the router has the neighbours")
    assert "neighbor" not in router.cli("show running-config"), "what Linux has is not saved"
    linux.ip("neigh", "del", "10.0.2.77", "dev", "xe1")
    wait_until(lambda: "10.0.2.77" not in known(), "the router has the neighbour no longer")
    # An operator's own stays.
    router.cli("set ip neighbor e1 10.0.2.78 02:00:00:00:00:78")
    linux.ip("neigh", "add", "10.0.2.78", "lladdr", "02:00:00:00:00:79", "dev", "xe1", "nud", "permanent")
    linux.ip("neigh", "add", "10.0.2.79", "lladdr", "02:00:00:00:00:79", "dev", "xe1", "nud", "permanent")
    wait_until(lambda: "10.0.2.79" in known(), "the router has the neighbour")
    linux.ip("neigh", "del", "10.0.2.78", "dev", "xe1")
    linux.ip("neigh", "del", "10.0.2.79", "dev", "xe1")
    wait_until(lambda: "10.0.2.79" not in known(), "the router has the neighbour no longer")
    assert "02:00:00:00:00:78" in known()


def test_a_neighbour_that_linux_forgets_is_the_routers_until_it_is_dead(lab):
    """The kernel hears nothing of packets that the router forwards, and its neighbours age."""
    router, linux, h1, h2 = addressed(lab)
    # A deadline that a test can wait for.
    router.cli("set ip neighbor-config ip4 age 2")
    h1.ip("route", "replace", "default", "via", "10.0.1.1")
    h2.ip("route", "replace", "default", "via", "10.0.2.1")
    assert h1.reaches("10.0.2.2")
    linux.ip("neigh", "flush", "all")
    assert h1.reaches("10.0.2.2")
    known = lambda: "10.0.2.2" in router.cli("show ip neighbors")
    assert known()
    # The host is gone, and its Ethernet address with it: the router asks, and forgets it.
    h2.ip("address", "del", "10.0.2.2/24", "dev", "eth0")
    linux.ip("neigh", "flush", "all")
    wait_until(lambda: not known(), "the router has forgotten the dead neighbour", seconds=60)


def test_routes_of_all_kinds(lab):
    router, linux, *_ = addressed(lab)
    for route in [
        "192.0.2.0/24 via 10.0.2.2",
        "192.0.3.0/24 nexthop via 10.0.1.2 weight 1 nexthop via 10.0.2.2 weight 3",
        "192.0.4.0/24 dev xe1",
        "192.0.5.0/24 via 172.16.0.1 dev xe1 onlink",
        "192.0.6.0/24 via inet6 2001:db8:2::2 dev xe1",
        "192.0.7.0/24 via inet6 fe80::2 dev xe1",
        "blackhole 192.0.8.0/24",
        "unreachable 192.0.9.0/24",
        "prohibit 192.0.10.0/24",
        "192.0.11.0/24 dev lo",
        "2001:db8:2::/48 via fe80::2 dev xe1",
        "2001:db8:3::/48 nexthop via fe80::2 dev xe0 weight 2 nexthop via 2001:db8:2::2 weight 5",
        "2001:db8:4::/48 dev xe1",
        "blackhole 2001:db8:8::/48",
        "unreachable 2001:db8:9::/48",
        "prohibit 2001:db8:a::/48",
        "default via 10.0.1.2",
    ]:
        family = "-6" if "2001:db8:" in route.split(" via")[0].split(" dev")[0] else "-4"
        linux.ip(family, "route", "add", *route.split())
    assert settled(router) == 16
    shown = {prefix: paths(router, prefix) for prefix in ["192.0.2.0/24", "192.0.3.0/24", "192.0.7.0/24"]}
    assert shown["192.0.2.0/24"] == ["attached-nexthop: 10.0.2.2 e1 *1"]
    assert shown["192.0.3.0/24"] == ["attached-nexthop: 10.0.1.2 e0 *1", "attached-nexthop: 10.0.2.2 e1 *3"]
    assert shown["192.0.7.0/24"] == ["attached-nexthop: fe80::2 e1 *1"], "the whole address"
    assert paths(router, "192.0.5.0/24") == ["attached-nexthop: 172.16.0.1 e1 cfg-flags:onlink *1"]
    assert paths(router, "192.0.4.0/24") == ["attached: e1 *1"]
    assert paths(router, "2001:db8:3::/48") == [
        "attached-nexthop: 2001:db8:2::2 e1 *5",
        "attached-nexthop: fe80::2 e0 *2",
    ]
    for prefix, word in [("192.0.8.0/24", "drop"), ("192.0.9.0/24", "unreach"), ("192.0.10.0/24", "prohibit")]:
        assert word in paths(router, prefix)[0], paths(router, prefix)
    assert paths(router, "192.0.11.0/24") == [], "by an interface that is not the router's"
    linux.ip("route", "flush", "root", "0/0", "proto", "boot")
    linux.ip("-6", "route", "flush", "root", "::/0", "proto", "boot")
    assert settled(router) == 0


def test_ipv4_goes_to_a_gateway_of_ipv6(lab):
    router, linux, h1, h2 = addressed(lab)
    h2.ip("address", "add", "192.0.2.1/32", "dev", "lo")
    linux.ip("route", "add", "192.0.2.0/24", "via", "inet6", "2001:db8:2::2", "dev", "xe1")
    settled(router)
    assert h1.reaches("192.0.2.1"), "RFC 8950"


def test_the_lowest_metric_forwards(lab):
    router, linux, *_ = addressed(lab)
    first, second = "attached-nexthop: 10.0.1.2 e0 *1", "attached-nexthop: 10.0.2.2 e1 *1"
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2", "metric", "20")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.1.2", "metric", "10")
    assert settled(router) == 1
    assert paths(router, "192.0.2.0/24") == [first]
    linux.ip("route", "del", "192.0.2.0/24", "metric", "10")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [second], "the other one forwards")
    linux.ip("route", "append", "192.0.2.0/24", "via", "10.0.1.2", "metric", "20")
    settled(router)
    assert paths(router, "192.0.2.0/24") == [second], "no ECMP: it is behind"
    linux.ip("route", "replace", "192.0.2.0/24", "via", "10.0.1.3", "metric", "20")
    wait_until(lambda: "10.0.1.3" in str(paths(router, "192.0.2.0/24")), "it is replaced")
    settled(router)


def test_ways_of_ipv6_routes_come_and_go_singly(lab):
    router, linux, *_ = addressed(lab)
    first, second = "attached-nexthop: 2001:db8:1::2 e0 *1", "attached-nexthop: 2001:db8:2::2 e1 *1"
    linux.ip("-6", "route", "add", "2001:db8:ff::/48", "via", "2001:db8:1::2")
    linux.ip("-6", "route", "append", "2001:db8:ff::/48", "via", "2001:db8:2::2")
    wait_until(lambda: paths(router, "2001:db8:ff::/48") == [first, second], "both forward")
    linux.ip("-6", "route", "del", "2001:db8:ff::/48", "via", "2001:db8:1::2")
    wait_until(lambda: paths(router, "2001:db8:ff::/48") == [second], "one is left")
    settled(router)
    both = "nexthop via 2001:db8:1::2 nexthop via 2001:db8:2::2".split()
    linux.ip("-6", "route", "replace", "2001:db8:ff::/48", *both)
    wait_until(lambda: paths(router, "2001:db8:ff::/48") == [first, second], "both forward")
    linux.ip("-6", "route", "replace", "2001:db8:ff::/48", "via", "2001:db8:1::2")
    wait_until(lambda: paths(router, "2001:db8:ff::/48") == [first], "the whole set is replaced")
    assert settled(router) == 1


@pytest.mark.parametrize("compatible", [0, 1])
def test_next_hop_objects_and_groups(lab, compatible):
    router, linux, *_ = addressed(lab)
    linux.set("net/ipv4/nexthop_compat_mode", compatible)
    first, second = "attached-nexthop: 10.0.1.2 e0", "attached-nexthop: 10.0.2.2 e1"
    linux.ip("nexthop", "add", "id", "1", "via", "10.0.1.2", "dev", "xe0")
    linux.ip("nexthop", "add", "id", "2", "via", "10.0.2.2", "dev", "xe1")
    linux.ip("nexthop", "add", "id", "10", "group", "1,2/2,5")
    linux.ip("route", "add", "192.0.2.0/24", "nhid", "10")
    linux.ip("route", "add", "192.0.3.0/24", "nhid", "1")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [f"{first} *2", f"{second} *5"], "both forward")
    assert paths(router, "192.0.3.0/24") == [f"{first} *1"]
    linux.ip("nexthop", "replace", "id", "10", "group", "2")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [f"{second} *1"], "the group is another")
    linux.ip("nexthop", "replace", "id", "2", "via", "10.0.2.3", "dev", "xe1")
    wait_until(lambda: "10.0.2.3" in str(paths(router, "192.0.2.0/24")), "the object is another")
    settled(router)
    # Objects go without a word when their interface goes down, and their routes with them.
    linux.ip("link", "set", "xe1", "down")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [], "the route is gone")
    assert settled(router) == 1
    linux.ip("nexthop", "del", "id", "1")
    wait_until(lambda: paths(router, "192.0.3.0/24") == [], "the route is gone")
    assert settled(router) == 0


def test_objects_that_are_there_first_are_found(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("nexthop", "add", "id", "1", "via", "10.0.1.2", "dev", "xe0")
    linux.ip("nexthop", "add", "id", "10", "group", "1")
    linux.ip("route", "add", "192.0.2.0/24", "nhid", "10")
    settled(router)
    # The same pair anew: everything is looked at as a whole.
    for number in (0, 1):
        router.cli(f"lcp delete e{number}")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [], "the route is gone")
    assert router.cli("show lcp netlink") == "no pairs: Linux is not followed\n"


def test_routes_of_an_interface_that_goes_down_are_those_of_linux(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.1.2", "metric", "9")
    linux.ip("-6", "route", "add", "2001:db8:ff::/48", "via", "2001:db8:2::2")
    assert settled(router) == 2
    linux.ip("link", "set", "xe1", "down")
    wait_until(lambda: "10.0.1.2" in str(paths(router, "192.0.2.0/24")), "the other one forwards")
    assert settled(router) == 1
    for state in ["up", "down", "up"]:
        linux.ip("link", "set", "xe1", state)
    settled(router)
    assert "10.0.1.2" in str(paths(router, "192.0.2.0/24")), "nothing is revived from memory"
    linux.ip("route", "add", "192.0.4.0/24", "via", "10.0.2.2")
    assert settled(router) == 2


def test_a_lost_carrier_takes_next_hop_objects_along(lab):
    router, linux, *_ = addressed(lab, "af_packet")
    linux.ip("nexthop", "add", "id", "2", "via", "10.0.2.2", "dev", "xe1")
    linux.ip("route", "add", "192.0.2.0/24", "nhid", "2", "metric", "10")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.1.2", "metric", "20")
    wait_until(lambda: "10.0.2.2" in str(paths(router, "192.0.2.0/24")), "the better one forwards")
    router.host.ip("link", "set", "to-e1", "down")
    wait_until(lambda: "10.0.1.2" in str(paths(router, "192.0.2.0/24")), "the other one forwards")
    settled(router)


def test_a_route_that_becomes_one_of_another_kind_is_gone(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2")
    assert settled(router) == 1
    linux.ip("route", "replace", "throw", "192.0.2.0/24")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [], "the route is gone")
    assert settled(router) == 0


def test_routes_that_lose_their_source_are_gone(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("address", "add", "10.0.2.9/24", "dev", "xe1")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2", "src", "10.0.2.9")
    assert settled(router) == 1
    linux.ip("address", "del", "10.0.2.9/24", "dev", "xe1")
    wait_until(lambda: paths(router, "192.0.2.0/24") == [], "the route is gone")
    assert settled(router) == 0
    linux.ip("route", "add", "192.0.3.0/24", "via", "10.0.2.2")
    linux.ip("address", "flush", "dev", "xe1")
    wait_until(lambda: paths(router, "192.0.3.0/24") == [], "the route is gone")
    assert settled(router) == 0


def test_an_overrun_loses_nothing(lab, tmp_path):
    router, linux, h1, h2 = addressed(lab, extra="linux-nl { rx-buffer-size 4k }")
    many = 20_000
    prefixes = [f"172.{16 + number // 65536}.{number // 256 % 256}.{number % 256}/32" for number in range(many)]
    batch = tmp_path / "batch"
    batch.write_text("".join(f"route add {prefix} via 10.0.2.2\n" for prefix in prefixes))
    linux.ip("-batch", str(batch))
    wait_until(lambda: audit(router)["routes"] == many and agrees(router), "the router has all routes")
    seen = followed(router)
    assert seen["overruns"] > 0, "the test made no overrun"
    assert seen["looks"] > 1 and seen["backlog"] == 0
    assert h1.reaches("10.0.2.2"), "other traffic goes on"
    wait_until(lambda: "messages of Linux were lost" in router.log(), "an audit confirms it")
    batch.write_text("".join(f"route del {prefix}\n" for prefix in prefixes))
    linux.ip("-batch", str(batch))
    wait_until(lambda: audit(router)["routes"] == 0 and agrees(router), "the router has none of them")


def test_an_audit_names_what_differs_and_a_repair_sets_it_right(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2")
    linux.ip("route", "add", "192.0.3.0/24", "via", "10.0.2.2")
    assert settled(router) == 2
    # The router loses what Linux has: an operator takes an address away.
    router.cli("set interface ip address del e1 2001:db8:2::1/64")
    shown = router.cli("show lcp audit")
    assert "differences 1\n  missing: address 2001:db8:2::1/64 of e1" in shown, shown
    router.cli("lcp audit repair")
    wait_until(lambda: agrees(router), "the router has what Linux has")
    assert "2001:db8:2::1/64" in stations(router, "e1")
    router.cli("lcp resync")
    settled(router)
    # It touches nothing else: an interface that Linux never set up keeps what operators state.
    router.cli("create loopback interface instance 5")
    router.cli("set interface state loop5 up")
    router.cli("set interface mtu packet 1400 loop5")
    router.cli("lcp create loop5 host-if lo5")
    router.cli("set interface ip address del e1 2001:db8:2::1/64")
    router.cli("lcp audit repair")
    wait_until(lambda: agrees(router), "the router has what Linux has")
    loop = router.interface("loop5")
    assert (loop["state"], loop["mtu"]) == ("up", 1400)


def test_routes_are_those_of_one_namespace(lab):
    router, linux, *_ = addressed(lab)
    other = lab.host("other")
    router.cli("create loopback interface instance 5")
    router.cli(f"lcp create loop5 host-if lo5 netns {other.namespace}")
    other.ip("link", "set", "lo5", "up")
    other.ip("address", "add", "10.5.0.1/24", "dev", "lo5")
    wait_until(lambda: "10.5.0.1/24" in stations(router, "loop5"), "addresses are those of each")
    linux.ip("route", "add", "192.0.2.0/24", "via", "10.0.2.2")
    other.ip("route", "add", "192.0.5.0/24", "via", "10.5.0.9")
    other.ip("route", "add", "192.0.2.0/24", "via", "10.5.0.9")
    settled(router)
    assert paths(router, "192.0.5.0/24") == []
    assert paths(router, "192.0.2.0/24") == ["attached-nexthop: 10.0.2.2 e1 *1"]
    router.cli(f"lcp default netns {other.namespace}")
    wait_until(lambda: paths(router, "192.0.5.0/24") != [], "the other one's are")
    wait_until(lambda: paths(router, "192.0.2.0/24") == ["attached-nexthop: 10.5.0.9 loop5 *1"], "and not both")
    settled(router)


def test_tables_that_the_router_has_are_followed(lab):
    router, linux, *_ = addressed(lab)
    linux.ip("route", "add", "10.99.0.0/16", "via", "10.0.2.2", "table", "77")
    settled(router)
    before = followed(router)["not_followed"]
    router.cli("ip table add 77")
    wait_until(lambda: "10.99.0.0/16" in router.cli("show ip fib table 77"), "the route is in the table")
    settled(router)
    # Into the other family's table nothing leads, as there is none.
    linux.ip("-6", "route", "add", "2001:db8:99::/48", "via", "2001:db8:2::2", "table", "77")
    wait_until(lambda: followed(router)["not_followed"] > before, "the message is counted")
    router.cli("ip6 table add 77")
    wait_until(lambda: "2001:db8:99::/48" in router.cli("show ip6 fib table 77"), "that route, too")
    linux.ip("route", "replace", "10.99.0.0/16", "via", "10.0.1.2", "table", "77")
    wait_until(lambda: "10.0.1.2" in router.cli("show ip fib table 77 10.99.0.0/16"), "it leads elsewhere")
    linux.ip("route", "flush", "table", "77")
    wait_until(lambda: "10.99.0.0/16" not in router.cli("show ip fib table 77"), "it is gone")
    settled(router)
    router.cli("ip table del 77")
    linux.ip("route", "add", "10.98.0.0/16", "via", "10.0.2.2", "table", "77")
    settled(router)


def test_packets_of_routes_that_only_linux_has_a_way_for_go_there(lab):
    """Behind a link that is Linux's alone is a host, as in a container or behind a tunnel."""
    router, linux, h1, _ = addressed(lab)
    behind = lab.host("behind")
    linux.ip("link", "add", "own", "type", "veth", "peer", "name", "eth0", "netns", behind.namespace)
    for host, link, address in ((linux, "own", "172.17.0.1/16"), (behind, "eth0", "172.17.0.2/16")):
        host.ip("link", "set", link, "up")
        host.ip("address", "add", address, "dev", link)
    behind.ip("address", "add", "10.50.0.1/32", "dev", "eth0")
    behind.ip("route", "add", "default", "via", "172.17.0.1")
    linux.ip("route", "add", "10.50.0.0/16", "via", "172.17.0.2")
    linux.set("net/ipv4/ip_forward", 1)
    h1.ip("route", "replace", "default", "via", "10.0.1.1")
    settled(router)
    assert not h1.reaches("172.17.0.2", count=1, wait=1) and not h1.reaches("10.50.0.1", count=1, wait=1)
    router.cli("lcp param route-no-paths on")
    assert "lcp param route-no-paths on" in router.cli("show running-config")
    wait_until(lambda: "receive" in router.cli("show ip fib 172.17.0.2"), "the network is Linux's")
    assert h1.reaches("172.17.0.2") and h1.reaches("10.50.0.1")
    settled(router)
    # Networks of the router's own interfaces stay its own.
    assert "lcp-rt" not in router.cli("show ip fib 10.0.1.0/24")
    router.cli("lcp param route-no-paths off")
    wait_until(lambda: not paths(router, "172.17.0.0/16"), "the route is gone")
    assert not h1.reaches("10.50.0.1", count=1, wait=1)
    settled(router)
