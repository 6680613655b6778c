"""The Linux control plane: an interface of the router has a second side in Linux, which gets what is for the router."""

import contextlib
import json
import socket
import time

import pytest

from lab import CommandFailed, wait_until


@pytest.fixture(params=["tap", "af_packet"])
def paired(lab, request):
    """h1 -- e0 [router] e1 -- h2. In the namespace `linux`, xe0 and xe1 are e0 and e1."""
    router, h1, h2 = lab.two_hosts(request.param)
    linux = lab.host("linux")
    for number in (0, 1):
        router.cli(f"lcp create e{number} host-if xe{number} netns {linux.namespace}")
        linux.ip("link", "set", f"xe{number}", "up")
        linux.ip("address", "add", f"10.0.{number + 1}.1/24", "dev", f"xe{number}")
    # It looks at the links, so it sees at once that Linux answers.
    router.cli("show interface")
    return router, linux, h1, h2


def link(host, name):
    return json.loads(host.ip("-json", "link", "show", name))[0]


def mac_of(router, name):
    return router.cli_json(f"show hardware-interfaces {name}")["interfaces"][0]["mac"]


def received(frames, wanted, seconds=5):
    """The frames that fit, as many as came until there is one and the wire is quiet for a moment."""
    found, deadline = [], time.monotonic() + seconds
    frames.settimeout(0.3)
    while time.monotonic() < deadline:
        try:
            frame = frames.recv(2048)
        except TimeoutError:
            if found:
                break
            continue
        if wanted(frame):
            found.append(frame)
    return found


def test_a_pair_is_an_interface_of_linux(lab):
    router, *_ = lab.two_hosts("tap")
    linux = lab.host("linux")
    router.cli("set interface mtu 1400 e0")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    made = link(linux, "xe0")
    assert made["address"] == mac_of(router, "e0")
    assert made["mtu"] == 1400
    assert "UP" not in made["flags"], "Linux sets it up"
    shown = router.cli("show lcp")
    assert f"itf-pair: [0] e0 lcp0 xe0 type tap netns {linux.namespace}" in shown, shown
    assert router.cli("show lcp phy e0") == shown
    for command, why in [
        ("lcp create e0 host-if xe1", "e0 has a pair already: xe0"),
        ("lcp create lcp0 host-if xe1", "lcp0 is the Linux side of a pair itself"),
        ("lcp create e1 host-if a-name-that-is-long", "cannot name a host interface"),
        ("lcp create e1 host-if xe%d", "cannot name a host interface"),
        ("lcp create e1 host-if ../xe1", "cannot name a host interface"),
        ("lcp create e1 host-if xe1 netns ../../etc", "is not a network namespace"),
        ("lcp create nothing host-if xe1", "nothing"),
        ("lcp delete e1", "e1 has no pair"),
        ("show lcp phy e1", "e1 has no pair"),
        ("lcp create e1 host-if xe1 netns nowhere", "nowhere"),
    ]:
        with pytest.raises(CommandFailed, match=why):
            router.cli(command)
    router.cli("lcp delete e0")
    wait_until(lambda: "xe0" not in linux.ip("link", "show"), "Linux has no such interface any more")
    assert "itf-pair" not in router.cli("show lcp")


def test_a_pair_goes_with_its_interface_and_with_its_linux_side(lab):
    router, *_ = lab.two_hosts("tap")
    linux = lab.host("linux")
    router.cli("create loopback interface instance 7")
    router.cli(f"lcp create loop7 host-if lo7 netns {linux.namespace}")
    router.cli("delete interface loop7")
    wait_until(lambda: "lo7" not in linux.ip("link", "show"), "the pair of a deleted interface is gone")
    assert "itf-pair" not in router.cli("show lcp")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    router.cli("delete interface lcp0")
    assert "itf-pair" not in router.cli("show lcp")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    assert "xe0" in linux.ip("link", "show"), "the same again"


def test_what_is_stated_is_saved_and_loaded(lab, tmp_path):
    router, *_ = lab.two_hosts("tap")
    linux = lab.host("linux")
    router.cli(f"lcp default netns {linux.namespace}")
    router.cli("lcp create e0 host-if xe0")
    stated = router.cli("show running-config")
    assert f"lcp default netns {linux.namespace}" in stated
    assert f"lcp create e0 host-if xe0 netns {linux.namespace}\n" in stated
    assert "lcp0" not in stated, "the TAP between is made by that command"
    file = tmp_path / "saved"
    router.cli(f"save {file}")
    router.cli("lcp delete e0")
    router.cli("lcp default netns clear")
    router.cli(f"load {file}")
    assert router.cli("show running-config") == stated
    wait_until(lambda: "xe0" in linux.ip("link", "show"), "the pair is back")
    router.cli("lcp delete e0")


def test_startup_conf_names_the_default_namespace(lab, tmp_path):
    linux = lab.host("linux")
    router = lab.router(extra=f"linux-cp {{ default netns {linux.namespace} num-rx-queues 2 num-tx-queues 2 }}")
    router.cli("create loopback interface instance 0")
    router.cli("lcp create loop0 host-if xe0")
    assert link(linux, "xe0")["ifname"] == "xe0"
    assert f"lcp default netns '{linux.namespace}'" in router.cli("show lcp")
    assert "lcp default" not in router.cli("show running-config"), "that is of startup.conf"
    assert "num-tx-queues has no effect" in router.cli("show config")
    router.cli("create loopback interface instance 1")
    router.cli("lcp default netns clear")
    router.cli("lcp create loop1 host-if xe1")
    stated = router.cli("show running-config").splitlines()
    assert f"lcp create loop0 host-if xe0 netns {linux.namespace}" in stated
    assert "lcp create loop1 host-if xe1 netns clear" in stated
    file = tmp_path / "saved"
    router.cli(f"save {file}")
    router.cli("lcp delete loop0")
    router.cli("lcp delete loop1")
    router.cli(f"load {file}")
    assert router.cli("show running-config").splitlines() == stated
    assert link(router.host, "xe1")["ifname"] == "xe1", "in the namespace of the router"


def test_linux_answers_for_the_router_and_the_router_forwards(paired):
    router, linux, h1, h2 = paired
    assert h1.reaches("10.0.2.2"), "through the router"
    before = linux.counter("IcmpInEchos")
    assert h1.reaches("10.0.1.1", count=5)
    assert linux.counter("IcmpInEchos") == before + 5, "Linux answered all of them"
    assert "echo replies sent" not in router.errors(), "and the router none"
    assert linux.reaches("10.0.1.2") and linux.reaches("10.0.2.2"), "Linux reaches the hosts on the links"
    counters = router.counters("e0")
    assert counters["lcp_tx_packets"] > 5 and counters["lcp_rx_packets"] > 5, counters


def test_requests_for_the_routers_address_are_answered_once_and_both_learn(paired):
    router, linux, h1, _ = paired
    assert h1.reaches("10.0.2.2") and linux.reaches("10.0.1.2")
    router.cli("clear ip neighbors")
    linux.ip("neigh", "flush", "dev", "xe0")
    h1.ip("neigh", "flush", "dev", "eth0")
    frames = h1.frames()
    ours = bytes.fromhex(mac_of(router, "e0").replace(":", ""))
    assert h1.reaches("10.0.1.1", count=1)
    is_reply = lambda frame: frame[6:14] == ours + b"\x08\x06" and frame[20:22] == b"\0\2"
    assert len(received(frames, is_reply)) == 1, "one answer"
    assert "10.0.1.2" in linux.neighbours()
    wait_until(lambda: "10.0.1.2" in router.neighbours(), "the router learned the one who asked")
    assert router.errors().get("ARP replies sent", 0) == 0


def test_groups_and_unknown_protocols_reach_linux_and_leave_it(paired):
    router, linux, h1, _ = paired
    del router
    host, outside = linux.frames("xe0"), h1.frames()
    source = bytes.fromhex(h1.mac().replace(":", ""))
    ospf = bytes.fromhex("45c000180000000001590000" "0a000102" "e0000005") + b"\2\1\0\4"
    total = sum(int.from_bytes(ospf[i : i + 2], "big") for i in range(0, 20, 2))
    total = (total & 0xFFFF) + (total >> 16)
    ospf = ospf[:10] + (0xFFFF - total).to_bytes(2, "big") + ospf[12:]
    lldp = bytes.fromhex("0180c200000e") + source + bytes.fromhex("88cc") + b"\2\7\4" + source + b"\0\0" + bytes(40)
    isis = bytes.fromhex("0180c2000014") + source + bytes.fromhex("0040fefe03") + bytes(61)
    for name, frame in [
        ("OSPF", bytes.fromhex("01005e000005") + source + b"\x08\0" + ospf + bytes(22)),
        ("LLDP", lldp),
        ("IS-IS", isis),
    ]:
        outside.send(frame)
        assert received(host, lambda seen, frame=frame: seen[:34] == frame[:34]), f"{name} reaches Linux"
        host.send(frame)
        assert received(outside, lambda seen, frame=frame: seen[:34] == frame[:34]), f"{name} leaves by the wire"


def test_neighbor_discovery_is_answered_by_linux_and_read_by_the_router(lab):
    router, h1, h2 = lab.two_hosts6("tap")
    linux = lab.host("linux")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    linux.ip("link", "set", "xe0", "up")
    linux.speak_ip6("2001:db8:1::1/64", interface="xe0")
    router.cli("show interface")
    h1.ip("-6", "neigh", "flush", "dev", "eth0")
    router.cli("clear ip neighbors")
    assert h1.reaches("2001:db8:1::1")
    assert linux.reaches("2001:db8:1::2")
    assert h1.reaches("2001:db8:2::2"), "through the router"
    assert linux.counter("Icmp6InEchos") >= 3
    errors = router.errors()
    assert errors.get("solicitation that the host answers", 0) >= 1, errors
    assert "2001:db8:1::2" in router.neighbours()
    group = linux.socket(socket.SOCK_DGRAM, family=socket.AF_INET6)
    index = link(linux, "xe0")["ifindex"]
    group.bind(("ff02::1234", 4000, 0, index))
    member = socket.inet_pton(socket.AF_INET6, "ff02::1234") + index.to_bytes(4, "little")
    group.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, member)
    sender = h1.socket(socket.SOCK_DGRAM, family=socket.AF_INET6)
    sender.sendto(b"hello", ("ff02::1234", 4000, 0, link(h1, "eth0")["ifindex"]))
    assert group.recv(100) == b"hello"


def test_streams_between_linux_and_hosts_are_whole(paired):
    """Checksums and segments that a NIC would finish are finished on the way."""
    router, linux, h1, _ = paired
    del router
    listener = linux.socket(socket.SOCK_STREAM, ("10.0.1.1", 4000), timeout=20)
    listener.listen()
    caller = h1.socket(socket.SOCK_STREAM, timeout=20)
    caller.connect(("10.0.1.1", 4000))
    answerer, _ = listener.accept()
    answerer.settimeout(20)
    data = bytes(range(256)) * 4096
    with contextlib.closing(answerer):
        for sender, receiver in [(caller, answerer), (answerer, caller)]:
            sent, got = 0, bytearray()
            sender.setblocking(False)
            while len(got) < len(data):
                with contextlib.suppress(BlockingIOError):
                    sent += sender.send(data[sent : sent + 65536])
                receiver.settimeout(0.05)
                with contextlib.suppress(TimeoutError):
                    got += receiver.recv(1 << 20)
            assert bytes(got) == data
            sender.settimeout(20)


def addresses(host, name):
    shown = json.loads(host.ip("-json", "address", "show", name))[0]["addr_info"]
    return {f"{one['local']}/{one['prefixlen']}" for one in shown if one["scope"] != "link"}


def test_linux_follows_what_operators_state_to_the_router(lab):
    router, h1, _ = lab.two_hosts("af_packet")
    linux = lab.host("linux")
    linux.set("net/ipv6/conf/all/disable_ipv6", 0)
    linux.set("net/ipv6/conf/default/disable_ipv6", 0)
    router.cli("set interface ip address e0 2001:db8::1/64")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    assert "UP" not in link(linux, "xe0")["flags"] and addresses(linux, "xe0") == set(), "not yet"
    router.cli("lcp lcp-sync on")
    assert "lcp lcp-sync on" in router.cli("show lcp")
    assert "lcp lcp-sync on" in router.cli("show running-config")
    assert addresses(linux, "xe0") == {"10.0.1.1/24", "2001:db8::1/64"}
    assert "UP" in link(linux, "xe0")["flags"]
    assert h1.reaches("10.0.1.1")
    assert linux.counter("IcmpInEchos") > 0
    # Each change.
    router.cli("set interface mtu 1400 e0")
    assert link(linux, "xe0")["mtu"] == 1400
    router.cli("set interface ip address e0 10.9.0.1/16")
    router.cli("set interface ip address del e0 10.0.1.1/24")
    router.cli("set interface ip address del e0 2001:db8::1/64")
    assert addresses(linux, "xe0") == {"10.9.0.1/16"}
    router.cli("set interface mac address e0 02:00:00:00:00:77")
    assert link(linux, "xe0")["address"] == "02:00:00:00:00:77"
    router.cli("set interface state e0 down")
    assert "UP" not in link(linux, "xe0")["flags"]
    router.cli("set interface state e0 up")
    assert "UP" in link(linux, "xe0")["flags"]
    # A pair that is made meanwhile follows from the first moment.
    router.cli(f"lcp create e1 host-if xe1 netns {linux.namespace}")
    assert addresses(linux, "xe1") == {"10.0.2.1/24"} and "UP" in link(linux, "xe1")["flags"]
    router.cli("lcp lcp-sync off")
    router.cli("set interface ip address e1 10.8.0.1/16")
    assert addresses(linux, "xe1") == {"10.0.2.1/24"}
    assert "lcp-sync" not in router.cli("show running-config")


@pytest.mark.parametrize("driver", ["tap", "af_packet"])
def test_linux_sees_the_carrier_of_the_wire(lab, driver):
    router, h1, _ = lab.two_hosts(driver)
    linux = lab.host("linux")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    linux.ip("link", "set", "xe0", "up")
    has_carrier = lambda: "LOWER_UP" in link(linux, "xe0")["flags"]
    wait_until(has_carrier, "the wire is there")
    h1.ip("link", "set", "eth0", "down")
    wait_until(lambda: not has_carrier(), "the other end is down")
    h1.ip("link", "set", "eth0", "up")
    wait_until(has_carrier, "the wire is back")
    h1.ip("link", "set", "eth0", "down")
    wait_until(lambda: not has_carrier(), "the other end is down again")
    router.cli(f"lcp create e1 host-if xe1 netns {linux.namespace}")
    router.cli("lcp delete e0")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    linux.ip("link", "set", "xe0", "up")
    assert not has_carrier(), "a new pair begins without one"


def test_what_linux_refuses_is_logged_and_the_router_goes_on(lab):
    router, h1, _ = lab.two_hosts("tap")
    linux = lab.host("linux")
    router.cli("lcp lcp-sync on")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    # Linux has no IPv6 there.
    linux.set("net/ipv6/conf/xe0/disable_ipv6", 1)
    router.cli("set interface ip address e0 2001:db8:9::1/64")
    log = router.cli("show logging")
    assert "Linux refuses xe0 the address 2001:db8:9::1/64: Permission denied" in log, log
    assert "2001:db8:9::1/64" in router.cli("show interface address e0")
    linux.ip("link", "delete", "xe0")
    wait_until(lambda: "xe0 is deleted in Linux" in router.cli("show logging"), "the log says so")
    router.cli("set interface ip address e0 10.9.0.1/16")
    assert "10.9.0.1/16" in router.cli("show interface address e0")
    router.cli("lcp delete e0")
    assert h1.reaches("10.0.1.1"), "without a pair the router answers again"


def test_while_its_side_in_linux_is_down_the_router_answers_itself(lab):
    router, h1, _ = lab.two_hosts("tap")
    linux = lab.host("linux")
    router.cli(f"lcp create e0 host-if xe0 netns {linux.namespace}")
    assert h1.reaches("10.0.1.1") and h1.reaches("10.0.2.2")
    linux.ip("address", "add", "10.0.1.1/24", "dev", "xe0")
    linux.ip("link", "set", "xe0", "up")
    router.cli("show interface")
    before = linux.counter("IcmpInEchos")
    assert h1.reaches("10.0.1.1") and linux.counter("IcmpInEchos") > before
    linux.ip("link", "delete", "xe0")
    router.cli("show interface")
    h1.ip("neigh", "flush", "dev", "eth0")
    assert h1.reaches("10.0.1.1") and h1.reaches("10.0.2.2")


def test_a_pair_keeps_its_interface_when_that_has_another_name(lab, tmp_path):
    router, *_ = lab.two_hosts("tap")
    linux = lab.host("linux")
    router.cli("create loopback interface instance 3")
    router.cli(f"lcp create loop3 host-if xe0 netns {linux.namespace}")
    router.cli("set interface name loop3 wan")
    assert f"lcp create wan host-if xe0 netns {linux.namespace}" in router.cli("show running-config")
    file = tmp_path / "saved"
    router.cli(f"save {file}")
    router.cli("delete interface wan")
    router.cli(f"load {file}")
    assert "itf-pair: [0] wan lcp0 xe0" in router.cli("show lcp")
    for command, why in [
        ("set interface ip address lcp0 10.9.9.1/24", "lcp0 leads to Linux"),
        (f"lcp create e0 host-if xe0 netns {linux.namespace}", "xe0 is a host interface of lcp0 already"),
    ]:
        with pytest.raises(CommandFailed, match=why):
            router.cli(command)


def test_a_long_datagram_in_fragments_reaches_linux(paired):
    router, _, h1, _ = paired
    del router
    assert h1.reaches("10.0.1.1", "-s", "60000", count=2)


def test_an_interface_that_borrows_addresses_has_them_in_linux_too(lab):
    router = lab.router()
    linux, h1, h2 = lab.host("linux"), lab.host("h1"), lab.host("h2")
    router.attach(h1, "e0", "tap", "192.0.2.2/24")
    router.attach(h2, "e1", "tap", "192.0.2.2/24")
    router.cli(f"lcp default netns {linux.namespace}")
    router.batch("""lcp lcp-sync on
        set interface ip address e0 192.0.2.1/24
        set interface unnumbered e1 use e0
        lcp create e0 host-if xe0
        lcp create e1 host-if xe1""")
    of = lambda link: [word for word in linux.ip("-4", "address", "show", "dev", link).split() if "." in word]
    assert "192.0.2.1/32" not in of("xe1")
    router.cli("lcp param lcp-sync-unnumbered on")
    assert "192.0.2.1/32" in of("xe1") and "192.0.2.1/24" in of("xe0")
    # It is an address of the lender still, and no other one.
    wait_until(lambda: router.cli_json("show lcp audit")["differences"] == 0, "the router has what Linux has")
    assert router.cli("show running-config").count("ip address") == 1
    router.cli("set interface ip address e0 198.51.100.1/24")
    assert "198.51.100.1/32" in of("xe1")
    router.cli("set interface ip address del e0 198.51.100.1/24")
    assert "198.51.100.1/32" not in of("xe1")
    router.cli("set interface unnumbered del e1")
    assert "192.0.2.1/32" not in of("xe1") and "192.0.2.1/24" in of("xe0")
    router.cli("set interface unnumbered e1 use e0")
    assert "192.0.2.1/32" in of("xe1")
    router.cli("lcp lcp-sync-unnumbered off")
    assert "192.0.2.1/32" not in of("xe1")
