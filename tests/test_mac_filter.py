"""Which frames are taken: for the own address, extra ones, groups; and what promiscuous adds."""

import json

import pytest
from scapy.layers.inet import ICMP, IP
from scapy.layers.l2 import LLC, SNAP, STP, Dot3, Ether

from lab import wait_until

VIRTUAL = "00:00:5e:00:01:07"
OTHER = "02:99:99:99:99:99"


def request(h1, to):
    return bytes(Ether(src=h1.mac(), dst=to) / IP(src="10.0.1.2", dst="10.0.1.1") / ICMP() / b"data")


def answered(h1, opened, to):
    """Whether an echo request to an Ethernet address is answered, and from which."""
    opened.send(request(h1, to))
    while True:
        frame = opened.recv(65536)
        if frame[12:14] == b"\x08\x00" and frame[34] == 0:
            return Ether(frame).src


def test_an_extra_address_is_served_and_a_strange_one_is_not(two_hosts):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.1.1", count=1)
    own = router.cli_json("show hardware-interfaces e0")["interfaces"][0]["mac"]
    opened = h1.frames()
    router.cli(f"set interface secondary-mac-address e0 {VIRTUAL} add")
    assert answered(h1, opened, VIRTUAL) == own
    before = router.errors().get("l3 mac mismatch", 0)
    opened.send(request(h1, OTHER))
    wait_until(lambda: router.errors().get("l3 mac mismatch", 0) == before + 1, "a frame for another is dropped")
    router.cli(f"set interface secondary-mac-address e0 {VIRTUAL} del")
    opened.send(request(h1, VIRTUAL))
    wait_until(lambda: router.errors().get("l3 mac mismatch", 0) == before + 2, "as is one for what was taken away")


def test_llc_frames_are_punted_by_name(two_hosts):
    router, h1, _ = two_hosts
    opened = h1.frames()
    router.cli("clear errors")
    bridges = "01:80:c2:00:00:00"
    opened.send(bytes(Dot3(src=h1.mac(), dst=bridges) / LLC(dsap=0x42, ssap=0x42, ctrl=3) / STP()))
    opened.send(bytes(Dot3(src=h1.mac(), dst=bridges) / LLC() / SNAP(OUI=0x0C, code=0x2000) / b"cdp"))
    wanted = ("punted: llc spanning tree (sap 0x42)", "punted: snap cisco (oui 00:00:0c)")
    wait_until(lambda: all(router.errors().get(name) == 1 for name in wanted), "both are counted by name")
    assert router.counters("e0")["punt"] == 2


@pytest.mark.parametrize("driver", ["af_packet"])
def test_the_host_is_asked_for_no_more_than_is_wanted(two_hosts, driver):
    router, h1, _ = two_hosts

    def promiscuity():
        shown = router.host.ip("-details", "-json", "link", "show", "to-e0")
        return json.loads(shown)[0]["promiscuity"]

    # Some devices cannot filter addresses: for these the kernel itself asks for everything.
    before = promiscuity()
    router.cli("set interface promiscuous on e0")
    assert promiscuity() == before + 1
    router.cli("set interface promiscuous off e0")
    assert promiscuity() == before
    # Another address of ours is asked for as the first one was.
    router.cli("set interface mac address e0 02:00:00:00:00:77")
    h1.ip("neigh", "flush", "dev", "eth0")
    assert h1.reaches("10.0.1.1", count=1)
    assert h1.neighbours()["10.0.1.1"] == "02:00:00:00:00:77"
