"""Neighbours: asked for, learned, static, forgotten."""

import re
import time
from socket import SOCK_DGRAM, inet_aton

import pytest

from lab import CommandFailed, wait_until


def arp_request(mac, asker, wanted):
    """The frame with which a host asks who has an address."""
    sender = bytes.fromhex(mac.replace(":", ""))
    body = bytes.fromhex("0001080006040001") + sender + inet_aton(asker) + bytes(6) + inet_aton(wanted)
    return b"\xff" * 6 + sender + b"\x08\x06" + body


def test_the_router_asks_for_a_host(two_hosts):
    router, h1, h2 = two_hosts
    assert router.neighbours() == {}
    assert h1.reaches("10.0.2.2", count=1)
    known = router.neighbours()["10.0.2.2"]
    assert known["mac"] == h2.mac()
    assert (known["flags"], known["interface"]) == ("D", "e1")


def test_a_host_asks_for_the_router(two_hosts):
    router, h1, _ = two_hosts
    h1.ip("neigh", "flush", "all")
    assert h1.reaches("10.0.1.1", count=1)
    hardware = router.cli_json("show hardware-interfaces e0")["interfaces"][0]
    assert h1.neighbours()["10.0.1.1"] == hardware["mac"]
    assert router.errors()["ARP replies sent"] >= 1


def test_who_asks_the_router_is_known_to_it(two_hosts):
    """RFC 826: the request is enough; nobody has to be asked back."""
    router, h1, _ = two_hosts
    h1.frames().send(arp_request(h1.mac(), "10.0.1.2", "10.0.1.1"))
    wait_until(lambda: "10.0.1.2" in router.neighbours(), "the router has learned")
    assert router.neighbours()["10.0.1.2"]["mac"] == h1.mac()
    assert "ARP replies received" not in router.errors()


def test_a_request_for_another_address_is_not_answered(two_hosts):
    router, h1, _ = two_hosts
    wire = h1.frames(timeout=0.3)
    for asker, wanted in (("10.0.1.2", "10.0.1.77"), ("10.0.1.2", "10.0.2.1"), ("192.0.2.9", "10.0.1.1")):
        wire.send(arp_request(h1.mac(), asker, wanted))
    wait_until(lambda: router.errors().get("ARP request for another address") == 1, "the requests are counted")
    assert router.errors()["IP4 destination address not local to subnet"] == 1
    assert router.errors()["IP4 source address not local to subnet"] == 1
    assert "ARP replies sent" not in router.errors()


def test_a_host_that_forgot_the_router_finds_it_again(two_hosts):
    _, h1, h2 = two_hosts
    assert h1.reaches("10.0.2.2")
    for host in (h1, h2):
        host.ip("neigh", "flush", "all")
    assert h1.reaches("10.0.2.2")


def test_a_static_neighbour_is_used_without_asking(lab, driver):
    router, h1, h2 = lab.two_hosts(driver)
    router.cli(f"ip neighbor e1 10.0.2.2 {h2.mac()}")
    assert router.neighbours()["10.0.2.2"]["flags"] == "S"
    wire = h2.frames()
    assert h1.reaches("10.0.2.2", count=1)
    wire.settimeout(0.2)
    asked = []
    try:
        while True:
            frame = wire.recv(2048)
            # A request for 10.0.2.2 would be the router's.
            if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1" and frame[38:42] == bytes([10, 0, 2, 2]):
                asked.append(frame)
    except TimeoutError:
        pass
    assert asked == []


def test_a_static_neighbour_is_not_overridden_from_the_wire(two_hosts):
    router, _, h2 = two_hosts
    router.cli("ip neighbor e1 10.0.2.2 02:00:00:00:00:99")
    assert not h2.reaches("10.0.2.1", count=1, wait=1)
    assert router.neighbours()["10.0.2.2"]["mac"] == "02:00:00:00:00:99"
    router.cli("ip neighbor del e1 10.0.2.2")
    assert h2.reaches("10.0.2.1", count=1)
    assert router.neighbours()["10.0.2.2"]["mac"] == h2.mac()


def test_a_host_that_changes_its_ethernet_address_is_followed(two_hosts):
    router, h1, h2 = two_hosts
    assert h1.reaches("10.0.2.2")
    h2.ip("link", "set", "eth0", "address", "02:00:00:00:00:22")
    h2.ip("neigh", "flush", "all")
    h2.ping("10.0.2.1", count=1, wait=0.2)  # asks, and so tells
    wait_until(lambda: router.neighbours()["10.0.2.2"]["mac"] == "02:00:00:00:00:22", "the router has heard")
    assert h1.reaches("10.0.2.2")


def test_packets_to_an_unknown_host_wait_and_none_is_lost(two_hosts):
    """Twenty datagrams at once to a host whose address is not known yet: all arrive, in order."""
    _, h1, h2 = two_hosts
    # A kernel that asks for the router itself may send a packet before those that it held meanwhile.
    assert h1.reaches("10.0.1.1", count=1)
    receiver = h2.socket(SOCK_DGRAM, ("10.0.2.2", 4000))
    sender = h1.socket(SOCK_DGRAM)
    for number in range(20):
        sender.sendto(bytes([number]), ("10.0.2.2", 4000))
    assert [receiver.recv(10)[0] for _ in range(20)] == list(range(20))


@pytest.mark.slow
def test_few_packets_wait_for_one_host(lab):
    """A host that is not there: 32 packets wait, the others are dropped by name."""
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.1.1", count=1)
    sender = h1.socket(SOCK_DGRAM)
    for _ in range(50):
        sender.sendto(b"anybody?", ("10.0.2.99", 4000))
    wait_until(lambda: router.errors().get("hold queue full") == 18, "all packets but 32 are refused")
    assert router.cli_json("show ledger")["held"] == 32
    assert router.neighbours()["10.0.2.99"]["flags"] == "P"
    wait_until(lambda: router.neighbours()["10.0.2.99"]["flags"] == "F", "the router gives up", seconds=6)
    wait_until(lambda: "10.0.2.99" not in router.neighbours(), "it may be asked again", seconds=8)


def test_a_router_with_waiting_packets_ends_cleanly(lab):
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.1.1", count=1)
    sender = h1.socket(SOCK_DGRAM)
    for _ in range(5):
        sender.sendto(b"anybody?", ("10.0.2.99", 4000))
    lab.held = 5


def test_an_age_is_shown(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.1.1", count=1)
    time.sleep(0.3)
    assert 0.2 < router.neighbours()["10.0.1.2"]["age"] < 5


def test_group_addresses_are_refused_as_neighbours(lab):
    router, _, _ = lab.two_hosts("tap")
    with pytest.raises(CommandFailed, match=re.compile("01:00:5e:00:00:01|multicast|group", re.I)):
        router.cli("ip neighbor e0 10.0.1.9 01:00:5e:00:00:01")
    with pytest.raises(CommandFailed, match="10.0.1.77"):
        router.cli("ip neighbor del e0 10.0.1.77")


def test_two_hosts_believe_that_they_share_a_network(lab, driver):
    """RFC 1027: one prefix on both sides of the router, which answers for the other side."""
    router, hosts = lab.router(), []
    for name, address, ours in (("e0", "10.9.0.10/24", "10.9.0.1/27"), ("e1", "10.9.0.250/24", "10.9.0.254/27")):
        host = lab.host(f"h-{name}")
        router.attach(host, name, driver, address)
        router.cli(f"set interface ip address {name} {ours}")
        router.cli(f"set interface state {name} up")
        hosts.append(host)
    h1, h2 = hosts
    router.cli("set arp proxy start 10.9.0.0 end 10.9.0.255")
    assert not h1.reaches("10.9.0.250", count=1, wait=0.5), "nobody answers for it"
    for name in ("e0", "e1"):
        router.cli(f"set interface proxy-arp {name} enable")
    for host in hosts:
        host.ip("neigh", "flush", "all")
    assert h1.reaches("10.9.0.250")
    assert h2.reaches("10.9.0.10")
    for host, peer, name in ((h1, "10.9.0.250", "e0"), (h2, "10.9.0.10", "e1")):
        ours = router.cli_json(f"show hardware-interfaces {name}")["interfaces"][0]["mac"]
        assert host.neighbours()[peer] == ours, "the router's own address, not the host's"
    answered = router.errors()["Proxy ARP replies sent"]
    assert answered >= 2
    # A host that looks whether an address is free is not told that it is taken.
    others = router.errors().get("ARP request for another address", 0)
    wire = h1.frames()
    for wanted in ("10.9.0.10", "10.9.0.250"):
        wire.send(arp_request(h1.mac(), "0.0.0.0", wanted))
    wait_until(lambda: router.errors().get("ARP request for another address", 0) == others + 2, "both are counted")
    assert router.errors()["Proxy ARP replies sent"] == answered


@pytest.mark.slow
def test_a_silent_neighbour_is_polled_directly_before_it_is_forgotten(two_hosts):
    """RFC 1122 2.3.2.1: a unicast request; whoever answers stays."""
    router, h1, h2 = two_hosts
    router.cli("set ip neighbor-config ip4 age 1")
    assert h1.reaches("10.0.2.2", count=1)
    wire = h2.frames(timeout=5)
    ours = bytes.fromhex(h2.mac().replace(":", ""))

    def asked_directly():
        frame = wire.recv(2048)
        is_request = frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\1"
        return is_request and frame[:6] == ours and frame[38:42] == inet_aton("10.0.2.2")

    wait_until(asked_directly, "the host is asked directly", seconds=5, pause=0)
    wait_until(lambda: router.neighbours()["10.0.2.2"]["flags"] == "D", "it has answered")
    # A host that is gone is forgotten.
    h2.set("net/ipv4/conf/eth0/arp_ignore", 8)
    wait_until(lambda: "10.0.2.2" not in router.neighbours(), "the router forgets it", seconds=10)


def test_a_conflict_is_logged_shown_and_defended(two_hosts):
    """A Linux host takes the router's address."""
    router, h1, _ = two_hosts
    wire = h1.frames()
    wire.send(arp_request(h1.mac(), "10.0.1.1", "10.0.1.1"))
    conflict = wait_until(lambda: router.cli_json("show arp conflicts")["conflicts"], "the conflict is seen")[0]
    assert (conflict["ip"], conflict["mac"], conflict["interface"]) == ("10.0.1.1", h1.mac(), "e0")
    assert conflict["defended"] == 1

    def announced():
        frame = wire.recv(2048)
        return frame[12:14] == b"\x08\x06" and frame[28:32] == frame[38:42] == inet_aton("10.0.1.1")

    wait_until(announced, "the router announces its address", pause=0)
    for _ in range(20):
        wire.send(arp_request(h1.mac(), "10.0.1.1", "10.0.1.1"))
    wait_until(lambda: router.errors()["IP4 source address matches local interface"] == 21, "all are counted")
    assert router.cli_json("show arp conflicts")["conflicts"][0]["defended"] == 1, "not again for ten seconds"
    told = [line for line in router.log().splitlines() if "claims 10.0.1.1" in line]
    assert len(told) == 1 and h1.mac() in told[0] and "e0" in told[0]


def test_a_new_ethernet_address_is_announced(two_hosts):
    router, h1, _ = two_hosts
    h1.set("net/ipv4/neigh/eth0/locktime", 0)  # else Linux does not look for a second
    assert h1.reaches("10.0.1.1", count=1)
    router.cli("set interface mac address e0 02:fe:00:00:00:77")
    wait_until(lambda: h1.neighbours()["10.0.1.1"] == "02:fe:00:00:00:77", "the host has heard")
    assert h1.reaches("10.0.1.1", count=1)


def test_announcements_fill_no_table(two_hosts):
    router, h1, _ = two_hosts
    wire = h1.frames()
    for number in range(100, 200):
        wire.send(arp_request(h1.mac(), f"10.0.1.{number}", f"10.0.1.{number}"))
    wait_until(lambda: router.errors().get("ARP probe or announcement dropped") == 100, "all are counted")
    assert all(not address.startswith("10.0.1.1") or address == "10.0.1.1" for address in router.neighbours())


def test_neighbours_are_forgotten_on_demand(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2", count=1)
    router.cli("clear ip neighbors e1")
    assert set(router.neighbours()) == {"10.0.1.2"}
    assert h1.reaches("10.0.2.2", count=1)
