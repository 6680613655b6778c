"""How long packets may be: jumbo frames end to end, and what happens at each limit."""

import pytest

from lab import wait_until

JUMBO = 9000


@pytest.fixture
def jumbo_hosts(two_hosts, driver):
    """Two hosts with jumbo frames; the router's ends get theirs by command."""
    router, h1, h2 = two_hosts
    for name in ("e0", "e1"):
        router.cli(f"set interface mtu {JUMBO} {name}")
    for host in (h1, h2):
        if driver != "tap":
            host.ip("link", "set", "eth0", "mtu", JUMBO)
        # The host's end of a TAP is what the router set.
        assert f"mtu {JUMBO} " in host.ip("link", "show", "eth0")
    return router, h1, h2


def test_jumbo_frames_go_through_and_are_answered(jumbo_hosts):
    router, h1, _ = jumbo_hosts
    assert router.interface("e0")["mtu"] == JUMBO
    data = ("-M", "do", "-s", JUMBO - 28)
    assert h1.reaches("10.0.2.2", *data)
    assert h1.reaches("10.0.1.1", *data)
    sent = router.counters("e1")
    assert sent["tx_bytes"] >= 3 * (JUMBO + 14)


def test_the_mtu_of_ip4_counts_for_ip4(jumbo_hosts):
    router, h1, _ = jumbo_hosts
    router.cli("set interface mtu ip4 1400 e1")
    answer = h1.ping("10.0.2.2", "-M", "do", "-s", 1400 - 28 + 1, count=1)
    assert "Frag needed and DF set (mtu = 1400)" in answer.stdout
    assert h1.reaches("10.0.2.2", "-M", "do", "-s", 1400 - 28)
    assert "9000/1400/0/0" in router.cli("show interface e1")


def test_a_packet_mtu_beyond_the_link_waits_for_it_and_says_so(two_hosts, tmp_path):
    router, h1, _ = two_hosts
    said = router.cli("set interface mtu packet 9000 e1")
    assert "e1 takes packets of up to 1500 bytes for now" in said and "'set interface mtu 9000 e1'" in said
    assert router.interface("e1")["mtu"] == 1500
    assert router.cli("set interface mtu 9000 e1") == ""
    assert router.interface("e1")["mtu"] == 9000
    router.cli("set interface mtu default e1")
    # What was allowed cannot be had now; it stays stated, and can be loaded.
    assert router.interface("e1")["mtu"] == 1500
    saved = router.cli("show running-config")
    assert "set interface mtu packet 9000 e1\n" in saved
    (tmp_path / "saved").write_text(saved)
    router.cli(f"load {tmp_path / 'saved'}")


@pytest.mark.parametrize("driver", ["af_packet", "af_xdp"])
def test_an_mtu_lowered_behind_our_back_drops_by_name(jumbo_hosts, driver):
    router, h1, _ = jumbo_hosts
    assert h1.reaches("10.0.2.2", "-M", "do", "-s", 4000)
    router.host.ip("link", "set", "to-e1", "mtu", 1500)
    router.cli("show interface")  # looks at the device, which is done once a second anyway
    h1.ping("10.0.2.2", "-M", "do", "-s", 4000, count=2, wait=1)
    wait_until(lambda: router.errors().get("packet is longer than the device's mtu") == 2, "both are dropped by name")
    # Told of the device's present MTU, the router tells senders.
    router.cli("set interface mtu 1500 e1")
    answer = h1.ping("10.0.2.2", "-M", "do", "-s", 4000, count=1)
    assert "Frag needed and DF set (mtu = 1500)" in answer.stdout
