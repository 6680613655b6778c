"""Sub-interfaces against a real Linux that tags: a guest with Debian's kernel, for the kernel
that runs the tests may have no 802.1Q.

    guest eth0.100, eth0.200 (802.1Q), eth0.300.30 (QinQ), eth0.400.40 (QinAD)
      |
    e0 [ router ] e1 --- h2 (10.0.2.2)
"""

import re

import pytest

from guest import Guest
from lab import wait_until

# Its sub-interface on each side, and the network between.
TAGS = {
    "v100": ("e0.100", "10.1.100"),
    "v200": ("e0.200", "10.1.200"),
    "q30": ("e0.330", "10.1.30"),
    "a40": ("e0.440", "10.1.40"),
}


@pytest.fixture
def tagging(lab, tmp_path):
    """The router with four sub-interfaces, the guest with as many, a host behind e1."""
    router = lab.router()
    guest = Guest.as_peer(router.host, "to-e0", tmp_path)
    router.host.ip("link", "set", "to-e0", "up")
    router.batch(
        "create host-interface to-e0 name e0\n"
        "set interface state e0 up\n"
        "create sub-interfaces e0 100\n"
        "create sub-interfaces e0 200\n"
        "create sub-interfaces e0 330 dot1q 300 inner-dot1q 30 exact-match\n"
        "create sub-interfaces e0 440 dot1ad 400 inner-dot1q 40 exact-match\n"
    )
    for name, network in TAGS.values():
        router.batch(f"set interface ip address {name} {network}.1/24\nset interface state {name} up\n")
    guest.sh("ip link add link eth0 name v100 type vlan id 100")
    guest.sh("ip link add link eth0 name v200 type vlan id 200")
    guest.sh("ip link add link eth0 name v300 type vlan id 300 && ip link set v300 up")
    guest.sh("ip link add link v300 name q30 type vlan id 30")
    guest.sh("ip link add link eth0 name v400 type vlan protocol 802.1ad id 400 && ip link set v400 up")
    guest.sh("ip link add link v400 name a40 type vlan id 40")
    for device, (_, network) in TAGS.items():
        guest.sh(f"ip address add {network}.2/24 dev {device} && ip link set {device} up")
    far = lab.host("h2")
    router.attach(far, "e1", "tap", "10.0.2.2/24")
    router.batch("set interface ip address e1 10.0.2.1/24\nset interface state e1 up\n")
    far.ip("route", "add", "default", "via", "10.0.2.1")
    guest.sh("ip route add 10.0.2.0/24 via 10.1.100.1")
    return router, guest, far


@pytest.mark.slow
def test_a_linux_peer_pings_over_each_kind_of_tag(tagging):
    router, guest, far = tagging
    for device, (name, network) in TAGS.items():
        assert guest.reaches(f"{network}.1"), f"{device} does not reach {name}"
        # And the other way, from behind the router.
        assert far.reaches(f"{network}.2"), f"{device} is not reached through {name}"
        counters = router.counters(name)
        # Answers to h2 come back by the guest's route, which is over v100.
        assert counters["rx_packets"] >= 3 and counters["tx_packets"] >= 6, (name, counters)
    known = router.neighbours()
    assert all(known[f"{network}.2"]["interface"] == name for name, network in TAGS.values())


@pytest.mark.slow
def test_what_a_linux_peer_sends_without_a_sub_interface_is_refused_by_name(tagging):
    router, guest, _ = tagging
    before = router.errors().get("unknown vlan", 0)
    guest.sh("ip link add link eth0 name v999 type vlan id 999")
    guest.sh("ip address add 10.9.9.2/24 dev v999 && ip link set v999 up")
    assert not guest.reaches("10.9.9.1", count=1)
    wait_until(lambda: router.errors().get("unknown vlan", 0) > before, "the tag is refused by name")


@pytest.mark.slow
def test_full_size_and_fragmented_pings_pass_a_tag(tagging):
    _, guest, _ = tagging
    # 1500 bytes of IPv4 behind one tag: the frame is 1518 long.
    assert guest.reaches("10.0.2.2", "-s 1472")
    assert guest.reaches("10.0.2.2", "-s 4000")


@pytest.mark.slow
def test_a_linux_peer_finds_its_addresses_and_routes_behind_each_kind_of_tag(lab, tmp_path):
    """The router advertises itself on three sub-interfaces, and the guest does the rest."""
    router = lab.router()
    guest = Guest.as_peer(router.host, "to-e0", tmp_path, ip6=True)
    router.host.ip("link", "set", "to-e0", "up")
    kinds = {
        "v100": ("100", "2001:db8:100"),
        "q30": ("330 dot1q 300 inner-dot1q 30 exact-match", "2001:db8:330"),
        "a40": ("440 dot1ad 400 inner-dot1q 40 exact-match", "2001:db8:440"),
    }
    router.batch("create host-interface to-e0 name e0\nset interface state e0 up\n")
    names = {}
    for device, (command, network) in kinds.items():
        names[device] = router.cli(f"create sub-interfaces e0 {command}").strip()
        router.batch(
            f"set interface ip address {names[device]} {network}::1/64\n"
            f"ip6 nd {names[device]} no ra-suppress\n"
            f"set urpf ip6 strict {names[device]}\n"
            f"set interface state {names[device]} up\n"
        )
    far = lab.host("h2")
    router.attach(far, "e1", "tap", None)
    far.speak_ip6("2001:db8:2::2/64", router="2001:db8:2::1")
    router.batch("set interface ip address e1 2001:db8:2::1/64\nset interface state e1 up\n")
    router.wait_for_addresses6()
    guest.sh("ip link add link eth0 name v100 type vlan id 100")
    guest.sh("ip link add link eth0 name v300 type vlan id 300 && ip link set v300 up")
    guest.sh("ip link add link v300 name q30 type vlan id 30")
    guest.sh("ip link add link eth0 name v400 type vlan protocol 802.1ad id 400 && ip link set v400 up")
    guest.sh("ip link add link v400 name a40 type vlan id 40")
    for device in kinds:
        guest.sh(f"ip link set {device} up")
    for device, (_, network) in kinds.items():

        def own():
            shown = guest.sh(f"ip -6 address show dev {device} scope global")
            found = re.search(rf"({network}:\S+)/64", shown)
            return found and "tentative" not in shown and found.group(1)

        wait_until(own, f"{device} has an address of its VLAN", seconds=20)
        # From behind the router, and to there by the route that the VLAN's advertisement brought.
        assert far.reaches(own()), f"{device} is not reached through {names[device]}"
        assert guest.reaches("2001:db8:2::2", f"-6 -I {device}"), f"{device} does not reach h2"
        assert f"dev {device}" in guest.sh("ip -6 route show default")
        solicited = router.cli_json(f"show ip6 ra {names[device]}")["interfaces"][0]["solicitations"]
        assert solicited > 0, f"{device} asked for routers"
    # Each in its own VLAN only.
    shown = guest.sh("ip -6 address show dev v100 scope global")
    assert shown.count("inet6") == 1, shown
