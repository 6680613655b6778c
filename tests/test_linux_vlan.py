"""Pairs of sub-interfaces: VLAN links of Linux, made there or in the router. The router and its peer are in a guest
with Debian's kernel, for the kernel that runs the tests may have no 802.1Q."""

import subprocess

import pytest

from guest import Guest, GuestRouter
from lab import QUIVER, CommandFailed, wait_until

# Each kind of sub-interface: how Linux makes it (the last link is the one meant), and how the router does.
KINDS = {
    "dot1q": ([("servers", "xe0", "802.1q", 101)], "dot1q 101 exact-match"),
    "dot1ad": ([("servers", "xe0", "802.1ad", 102)], "dot1ad 102 exact-match"),
    "qinq": (
        [("outer", "xe0", "802.1q", 300), ("servers", "outer", "802.1q", 30)],
        "dot1q 300 inner-dot1q 30 exact-match",
    ),
    "qinad": (
        [("outer", "xe0", "802.1ad", 400), ("servers", "outer", "802.1q", 40)],
        "dot1ad 400 inner-dot1q 40 exact-match",
    ),
}
# What the router calls one that Linux made.
NAMES = {"dot1q": "e0.101", "dot1ad": "e0.102", "qinq": "e0.3000030", "qinad": "e0.4000040"}


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
    yield router
    router.finish()


def paired(router):
    """e0 has the pair xe0, which is up with addresses."""
    router.cli("lcp create e0 host-if xe0")
    router.linux("ip link set xe0 up && ip address add 10.0.1.1/24 dev xe0")
    return router


def vlans(run, links, top):
    """The links of a kind above `top`, up."""
    for name, below, protocol, vid in links:
        below = top if below == "xe0" else below
        run(f"ip link add link {below} name {name} type vlan protocol {protocol} id {vid} && ip link set {name} up")


def state(router, name):
    """What the router shows of an interface; none: there is no such."""
    shown = router.cli_json("show interface")["interfaces"]
    return next((one for one in shown if one["name"] == name), None)


def is_up(router, name):
    return state(router, name)["state"] == "up"


def audited(router):
    wait_until(lambda: router.cli_json("show lcp audit")["differences"] == 0, "the router has what Linux has")


def link(router, name, what):
    """What `ip -details` says of a link in Linux behind a word."""
    words = router.linux(f"ip -details link show {name}").split()
    return words[words.index(what) + 1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_vlan_link_of_linux_is_a_sub_interface(router, kind):
    links, tags = KINDS[kind]
    name = NAMES[kind]
    paired(router)
    vlans(router.peer, links, "p0")
    router.peer("ip address add 10.0.9.2/24 dev servers && ip -6 address add 2001:db8:9::2/64 dev servers")
    vlans(router.linux, links, "xe0")
    neighbour = "ip neigh add 10.0.9.77 lladdr 02:00:00:00:00:77 dev servers nud permanent"
    router.linux(f"{neighbour} && ip address add 10.0.9.1/24 dev servers")
    router.linux("ip -6 address add 2001:db8:9::1/64 dev servers")
    wait_until(lambda: state(router, name), "the router has the sub-interface")
    audited(router)
    wait_until(lambda: "02:00:00:00:00:77" in router.cli("show ip neighbors"), "the router has the neighbour")
    for run in (router.linux, router.peer):
        run("ip link set servers mtu 1500")
    # Both ways, with the largest packets too: 1,500 bytes, 1,472 of them echoed.
    for run, address in ((router.linux, "10.0.9.2"), (router.peer, "10.0.9.1")):
        assert router.reaches(run, address)
        assert router.reaches(run, address, "-s", "1472", "-M", "do")
        # Put together by the router before Linux gets it.
        assert router.reaches(run, address, "-s", "3000")
    assert router.reaches(router.linux, "2001:db8:9::2") and router.reaches(router.peer, "2001:db8:9::1")
    counters = state(router, name)["counters"]
    assert counters["lcp_tx_packets"] >= 12 and counters["lcp_rx_packets"] >= 12, counters
    assert counters["rx_packets"] >= 12 and counters["tx_packets"] >= 12, counters
    # MTU and state.
    router.linux("ip link set servers mtu 1400")
    wait_until(lambda: state(router, name)["mtu"] == 1400, "the MTU follows")
    router.linux("ip link set servers down")
    wait_until(lambda: not is_up(router, name), "the state follows")
    router.linux("ip link set servers up")
    wait_until(lambda: is_up(router, name), "the state follows")
    # It is of Linux, so it is not saved. It is when an operator states anything of it.
    assert name not in router.cli("show running-config")
    router.cli(f"set interface tag {name} rack7")
    stated = router.cli("show running-config")
    number = name.split(".")[1]
    assert f"create sub-interfaces e0 {number}{'' if kind == 'dot1q' else f' {tags}'}\n" in stated, stated
    assert "servers" not in stated, stated
    router.cli(f"set interface tag del {name}")
    # The pair is stated with what it lies above.
    if len(links) == 2:
        router.cli(f"lcp create {name} host-if servers")
        stated = router.cli("show running-config")
        outer = f"e0.{links[0][3]}"
        for line in (f"create sub-interfaces e0 {links[0][3]}", f"lcp create {outer} host-if outer"):
            assert f"\n{line}" in stated, stated
        router.cli(f"delete sub-interface {name}")
        router.cli(f"delete sub-interface {outer}")
        vlans(router.linux, links, "xe0")
        wait_until(lambda: state(router, name), "the router has it anew")
        router.cli(f"set interface tag {name} rack7")
    # Then it stays when the link goes.
    router.linux("ip link delete servers")
    wait_until(lambda: "servers" not in router.cli("show lcp"), "the pair is gone")
    assert state(router, name) is not None
    router.cli(f"delete sub-interface {name}")
    # And goes with it, when nothing was stated.
    vlans(router.linux, links[-1:], "xe0")
    wait_until(lambda: state(router, name), "the router has it again")
    router.linux("ip link delete servers")
    wait_until(lambda: state(router, name) is None, "the sub-interface is gone")
    router.linux("ip link delete xe0")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_sub_interface_is_a_vlan_link_of_linux(router, kind):
    links, tags = KINDS[kind]
    paired(router)
    router.cli("lcp lcp-sync on")
    if len(links) == 2:
        outer, number = tags.split()[:2]
        router.cli(f"create sub-interfaces e0 {number} {outer} {number} exact-match")
        router.cli(f"set interface state e0.{number} up")
        router.cli(f"create sub-interfaces e0 77 {tags}")
        # Not before there is what it lies above.
        needed = f"'create sub-interfaces e0 {number} {outer} {number} exact-match' and"
        with pytest.raises(CommandFailed, match=needed):
            router.cli("lcp create e0.77 host-if servers")
        router.cli(f"lcp create e0.{number} host-if outer")
    else:
        router.cli(f"create sub-interfaces e0 77 {tags}")
    router.cli("set interface ip address e0.77 10.0.9.1/24")
    router.cli("set interface state e0.77 up")
    router.cli("set interface mac address e0.77 02:00:00:00:07:77")
    router.cli("set interface promiscuous on e0")
    router.cli("lcp create e0.77 host-if servers")
    name, below, protocol, vid = links[-1]
    assert link(router, "servers", "id") == str(vid)
    assert link(router, "servers", "protocol").lower() == protocol
    assert f"servers@{below}:" in router.linux("ip link show servers")
    assert "10.0.9.1/24" in router.linux("ip address show servers")
    assert link(router, "servers", "link/ether") == "02:00:00:00:07:77"
    vlans(router.peer, links, "p0")
    router.peer("ip address add 10.0.9.2/24 dev servers")
    assert router.reaches(router.linux, "10.0.9.2") and router.reaches(router.peer, "10.0.9.1")
    # MTU, not above that of the link below; state; addresses.
    router.cli("set interface mtu packet 1400 e0.77")
    assert link(router, "servers", "mtu") == "1400"
    router.cli("set interface mtu packet default e0.77")
    assert link(router, "servers", "mtu") == "1508"
    router.cli("set interface state e0.77 down")
    assert link(router, "servers", "state") == "DOWN"
    router.cli("set interface state e0.77 up")
    assert link(router, "servers", "state") == "UP"
    router.cli("set interface ip address del e0.77 10.0.9.1/24")
    assert "10.0.9.1/24" not in router.linux("ip address show servers")
    stated = router.cli("show running-config")
    assert "lcp create e0.77 host-if servers\n" in stated, stated
    # Linux deletes it: the pair stays, and takes the link when it is there again.
    router.linux("ip link delete servers")
    wait_until(lambda: not is_up(router, "e0.77") or "servers" not in router.linux("ip link show"), "it is gone")
    vlans(router.linux, links[-1:], "xe0")
    router.linux("ip address add 10.0.8.1/24 dev servers")
    wait_until(lambda: "10.0.8.1/24" in router.cli("show interface addr e0.77"), "the pair has its link again")
    # Inner ones go first.
    if kind == "dot1q":
        router.cli("lcp delete e0")
    else:
        router.cli(f"delete sub-interface {'e0.77' if len(links) == 1 else f'e0.{number}'}")
    assert "servers" not in router.linux("ip link show")
    assert "servers" not in router.cli("show lcp")


@pytest.mark.slow
def test_sub_interfaces_get_pairs_by_themselves(router):
    paired(router)
    router.cli("create sub-interfaces e0 100")
    router.cli("create sub-interfaces e0 330 dot1q 300 inner-dot1q 30 exact-match")
    router.cli("create sub-interfaces e0 200 dot1q 200")
    router.cli("lcp lcp-auto-subint on")
    router.cli("create sub-interfaces e0 300")
    router.cli("create sub-interfaces e0 101-103")
    pairs = {pair["phy"]: pair["host"] for pair in router.cli_json("show lcp")["pairs"]}
    numbers = (100, 101, 102, 103, 300, 330)
    # That of 200 takes frames of several VLANs.
    assert pairs == {"e0": "xe0", **{f"e0.{number}": f"xe0.{number}" for number in numbers}}, pairs
    links = router.linux("ip link show")
    assert "xe0.330@xe0.300:" in links and "xe0.101@xe0:" in links
    # They come again by themselves, so they are not stated. One can be.
    stated = router.cli("show running-config")
    assert "lcp lcp-auto-subint on\n" in stated and "host-if xe0.100" not in stated
    router.cli("lcp create e0.100 host-if xe0.100")
    assert "lcp create e0.100 host-if xe0.100\n" in router.cli("show running-config")
    # One that is stated replaces one that came by itself, also when all of it is loaded again.
    router.cli("lcp create e0.102 host-if mine")
    assert "mine@xe0:" in router.linux("ip link show") and "xe0.102@" not in router.linux("ip link show")
    router.cli("save /run/saved")
    router.cli("load /run/saved")
    router.kill()
    router.start()
    router.cli("exec /run/saved")
    again = {pair["phy"]: pair["host"] for pair in router.cli_json("show lcp")["pairs"]}
    assert again == {**pairs, "e0.102": "mine"}, again
    router.cli("delete sub-interface e0.101")
    assert "xe0.101@" not in router.linux("ip link show")
    router.cli("lcp lcp-auto-subint off")
    router.cli("create sub-interfaces e0 104")
    assert "e0.104" not in router.cli("show lcp")


@pytest.mark.slow
def test_links_go_down_and_up_with_the_one_below(router):
    """Linux takes VLAN links down with the one below, and raises all of them with it, even those that were down."""
    paired(router)
    for number in (10, 11):
        router.linux(f"ip link add link xe0 name v{number} type vlan id {number}")
    router.linux("ip link set v10 up")
    wait_until(lambda: state(router, "e0.11") and is_up(router, "e0.10"), "the router has both")
    assert not is_up(router, "e0.11")
    router.linux("ip link set xe0 down")
    wait_until(lambda: not is_up(router, "e0") and not is_up(router, "e0.10"), "both are down")
    router.linux("ip link set xe0 up")
    wait_until(lambda: is_up(router, "e0.10") and is_up(router, "e0.11"), "all are up")
    # The same from the router's side, where Linux follows. IPv6 addresses that an operator stated are set again.
    router.cli("lcp lcp-sync on")
    router.cli("set interface ip address e0.10 2001:db8:10::1/64")
    router.cli("set interface state e0 down")
    wait_until(lambda: not is_up(router, "e0.10") and link(router, "v10", "state") != "UP", "both follow")
    router.cli("set interface state e0 up")
    wait_until(lambda: is_up(router, "e0.10") and link(router, "v10", "state") == "UP", "both follow")
    wait_until(lambda: "2001:db8:10::1/64" in router.linux("ip address show v10"), "the address is there again")
    # The Ethernet address goes along, too.
    router.linux("ip link set xe0 address 02:00:00:00:77:01")
    wait_until(lambda: "02:00:00:00:77:01" in router.cli("show hardware-interfaces e0.10"), "the address follows")
    # A link that shrinks takes those above along.
    router.linux("ip link set xe0 mtu 1300")
    wait_until(lambda: state(router, "e0.10")["mtu"] == 1300, "the MTU follows")
    # A port that leaves a bridge is not gone.
    router.linux("ip link add br0 type bridge && ip link set v10 master br0 && ip link set v10 nomaster")
    assert state(router, "e0.10") is not None
    audited(router)


@pytest.mark.slow
def test_what_is_no_pair_of_a_sub_interface_is_refused(router):
    router.cli("create sub-interfaces e0 100")
    with pytest.raises(CommandFailed, match="lcp create e0 host-if NAME"):
        router.cli("lcp create e0.100 host-if servers")
    paired(router)
    router.cli("create sub-interfaces e0 200 dot1q 200")
    with pytest.raises(CommandFailed, match="exact-match"):
        router.cli("lcp create e0.200 host-if servers")
    with pytest.raises(CommandFailed, match="leave 'netns' out"):
        router.cli("lcp create e0.100 host-if servers netns peer")
    with pytest.raises(CommandFailed, match="xe0 is a host interface of e0"):
        router.cli("lcp create e0.100 host-if xe0")
    router.linux("ip link add servers type bridge")
    with pytest.raises(CommandFailed, match="it has an interface of that name"):
        router.cli("lcp create e0.100 host-if servers")
    # Linux has links that the router cannot have.
    router.linux("ip link add link xe0 name v200 type vlan id 200")
    router.linux("ip link add link xe0 name v300 type vlan id 300")
    router.linux("ip link add link v300 name deep type vlan protocol 802.1ad id 5")
    router.linux("ip link add link xe0 name v0 type vlan id 0")
    wait_until(lambda: "deep in Linux has no sub-interface" in router.log(), "the log says so")
    wait_until(lambda: "v0 in Linux has no sub-interface: v0 has the VLAN identifier 0" in router.log(), "and so of v0")
    assert "v200 in Linux has no sub-interface" in router.log()
    names = {pair["host"] for pair in router.cli_json("show lcp")["pairs"]}
    assert names == {"xe0", "v300"}
    # What stood in the way goes.
    router.cli("delete sub-interface e0.200")
    wait_until(lambda: "v200" in router.cli("show lcp"), "the link has its sub-interface")


@pytest.mark.slow
def test_the_next_router_takes_over_the_links_of_the_one_before(machine):
    router = GuestRouter(machine, "hold-time 30")
    try:
        paired(router)
        for name, tags in (("e0.77", "dot1q 77 exact-match"), ("e0.88", "dot1q 77 inner-dot1q 88 exact-match")):
            router.cli(f"create sub-interfaces e0 {name[3:]} {tags}")
            router.cli(f"lcp create {name} host-if v{name[3:]}")
        router.linux("ip link set v77 up && ip address add 10.0.7.1/24 dev v77")
        router.linux("ip link add link xe0 name found type vlan id 99 && ip link set found up")
        audited(router)
        wait_until(lambda: state(router, "e0.99"), "the router has the sub-interface")
        saved, links = router.cli("show running-config"), router.linux("ip -br link show")
        router.kill()
        router.start()
        for line in saved.strip().splitlines():
            router.cli(line)
        wait_until(lambda: state(router, "e0.99"), "the router has the sub-interface of Linux again")
        audited(router)
        assert router.cli("show running-config") == saved
        assert router.linux("ip -br link show") == links
        assert "10.0.7.1/24" in router.cli("show interface addr e0.77")
        router.cli("lcp delete e0")
        wait_until(lambda: "xe0" not in router.linux("ip link show"), "all of it is gone")
    finally:
        router.finish()


@pytest.mark.slow
def test_the_session_of_the_slide(router):
    """"VPP: Linux Controlplane - ip", typed again: only the names of the first interface and of the host differ."""
    peer = router.peer
    vlans(peer, [("servers", "xe0", "802.1q", 101)], "p0")
    peer("ip link set p0 mtu 9000")
    peer("ip address add 194.1.163.65/27 dev servers && ip address add 8.8.8.8/32 dev lo")
    peer("ip -6 address add 2001:678:d78:3::1/64 dev servers && ip -6 address add 2001:4860::8888/128 dev lo")
    router.guest.sh("ip link set w0 mtu 9000")
    router.cli("delete host-interface name w0")
    router.cli("create host-interface w0 name TenGigabitEthernet3/0/0")
    router.cli("lcp create TenGigabitEthernet3/0/0 host-if xe0")
    for line in """
        ip link set xe0 up mtu 9000
        ip address add 2001:db8:0:1::2/64 dev xe0
        ip address add 192.0.2.2/24 dev xe0
        ip link add link xe0 name servers type vlan id 101
        ip link set servers mtu 1500 up
        ip addr add 2001:678:d78:3::86/64 dev servers
        ip addr add 194.1.163.86/27 dev servers
        ip route add default via 2001:678:d78:3::1
        ip route add default via 194.1.163.65
    """.strip().splitlines():
        router.linux(line.strip())
    audited(router)
    assert router.reaches(router.linux, "8.8.8.8") and router.reaches(router.linux, "2001:4860::8888")
    name = "TenGigabitEthernet3/0/0"
    shown = state(router, f"{name}.101")
    assert shown["mtu"] == 1500 and state(router, name)["mtu"] == 9000
    # The router forwards by what Linux has.
    fib = router.cli("show ip fib 8.8.8.8")
    assert "194.1.163.65" in fib and f"{name}.101" in fib, fib
