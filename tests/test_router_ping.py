"""`ping` from the router itself: to real hosts, to itself, to nobody."""

import re
import subprocess
import time

import pytest

from lab import CommandFailed, wait_until

LINE = r"(\d+) bytes from (\S+): icmp_seq=(\d+) ttl=(\d+) time=(\d*\.\d{4}) ms"


def answers(shown):
    return [re.fullmatch(LINE, line).groups() for line in shown.splitlines() if "bytes from" in line]


def link_local(host):
    """A host's address on its link."""
    return re.search(r"inet6 (fe80::[0-9a-f:]+)", host.ip("address", "show", "eth0")).group(1)


def test_hosts_answer_and_the_output_is_that_of_vpp(two_hosts):
    router, h1, _ = two_hosts
    shown = router.cli("ping 10.0.1.2 repeat 3 interval 0.05")
    assert [answer[:4] for answer in answers(shown)] == [("116", "10.0.1.2", str(n), "64") for n in (1, 2, 3)]
    assert shown.endswith("\n\nStatistics: 3 sent, 3 received, 0% packet loss\n")
    assert all(not answer[4].startswith("0") for answer in answers(shown))
    assert h1.counter("IcmpInEchos") == 3 and h1.counter("IcmpInCsumErrors") == 0


def test_sizes_up_to_the_mtu_are_answered_and_beyond_refused(two_hosts):
    router, *_ = two_hosts
    for size in (0, 1, 17, 100, 1471, 1472):
        shown = router.cli(f"ping 10.0.2.2 repeat 1 size {size} df-bit")
        assert answers(shown)[0][0] == str(size + 28)
    with pytest.raises(CommandFailed, match=r"over the mtu of 1500 .*: size is at most 1472"):
        router.cli("ping 10.0.2.2 size 1473 df-bit")


def test_large_requests_pass_a_link_that_takes_them(lab):
    router, h1, _ = lab.two_hosts("tap")
    h1.ip("link", "set", "eth0", "mtu", 9000)
    router.cli("set interface mtu 9000 e0")
    shown = router.cli("ping 10.0.1.2 repeat 2 interval 0.05 size 8972")
    assert [answer[0] for answer in answers(shown)] == ["9000", "9000"]


def test_the_router_reaches_itself(two_hosts):
    router, *_ = two_hosts
    for size in (88, 65507):
        shown = router.cli(f"ping 10.0.2.1 repeat 2 interval 0.01 size {size}")
        assert "2 sent, 2 received" in shown


def test_the_source_can_be_another_interface(two_hosts):
    router, h1, _ = two_hosts
    sniffer = h1.frames()
    assert "1 received" in router.cli("ping 10.0.1.2 repeat 1 source e1")
    sources = set()
    while "10.0.2.1" not in sources:
        frame = sniffer.recv(2000)
        if frame[12:14] == b"\x08\x00" and frame[34] == 8:
            sources.add(".".join(map(str, frame[26:30])))


def test_nobody_answers(lab):
    router, h1, _ = lab.two_hosts("tap")
    shown = router.cli("ping 10.0.1.99 repeat 2 interval 0.1")
    assert shown == "\nStatistics: 2 sent, 0 received, 100% packet loss\n"
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "the requests are given up")


def test_an_absent_neighbour_is_told_of(lab):
    router, *_ = lab.two_hosts("tap")
    shown = router.cli("ping 10.0.1.99 repeat 4 interval 1")
    assert "From 10.0.1.1: icmp_seq=1 destination_unreachable_host\n" in shown
    assert shown.endswith("\nStatistics: 4 sent, 0 received, 100% packet loss\n")
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "the requests are given up")


def test_without_a_route_it_says_so_at_once(two_hosts):
    router, *_ = two_hosts
    start = time.monotonic()
    with pytest.raises(CommandFailed, match="ping: no route to 192.0.2.1"):
        router.cli("ping 192.0.2.1")
    assert time.monotonic() - start < 5


def test_what_routers_on_the_way_say_is_told(two_hosts):
    router, h1, _ = two_hosts
    h1.set("net/ipv4/ip_forward", 1)
    h1.ip("route", "add", "unreachable", "198.51.100.0/24")
    for network in ("198.51.100.0/24", "203.0.113.0/24"):
        router.cli(f"ip route add {network} via 10.0.1.2")
    assert router.cli("ping 203.0.113.1 repeat 1 ttl 1").splitlines()[0] == (
        "From 10.0.1.2: icmp_seq=1 ttl_exceeded_in_transit"
    )
    assert router.cli("ping 198.51.100.1 repeat 1").splitlines()[0] == (
        "From 10.0.1.2: icmp_seq=1 destination_unreachable_host"
    )


def test_json_has_every_answer(two_hosts):
    router, *_ = two_hosts
    shown = router.cli_json("ping 10.0.2.2 repeat 2 interval 0.05 size 10")
    assert (shown["sent"], shown["received"], shown["loss_percent"]) == (2, 2, 0)
    assert [(a["result"], a["sequence"], a["bytes"]) for a in shown["answers"]] == [("reply", 1, 38), ("reply", 2, 38)]
    assert all(answer["milliseconds"] > 0 for answer in shown["answers"])


def test_others_are_served_while_a_ping_runs(two_hosts):
    router, h1, _ = two_hosts
    process = subprocess.Popen(
        [router.binary, "cli", "--socket", router.socket, "ping", "10.0.1.2", "repeat", "30", "interval", "0.05"],
        stdout=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: h1.counter("IcmpInEchos") > 0, "the ping runs")
    assert "e0" in router.cli("show interface")
    assert "2 received" in router.cli("ping 10.0.2.2 repeat 2 interval 0.01")
    assert process.poll() is None, "the long one is still at it"
    assert "30 sent, 30 received, 0% packet loss" in process.communicate(timeout=30)[0]


def test_the_router_can_be_stopped_while_a_ping_runs(two_hosts):
    router, h1, _ = two_hosts
    process = subprocess.Popen(
        [router.binary, "cli", "--socket", router.socket, "ping", "10.0.1.2", "repeat", "100000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: h1.counter("IcmpInEchos") > 0, "the ping runs")
    router.stop()
    assert process.wait(timeout=30) != 0


def test_forged_answers_do_not_count(two_hosts):
    """Replies with other identifiers, numbers and checksums, at a rate, while a real ping runs."""
    router, h1, _ = two_hosts
    script = (
        "import os, socket, struct, time\n"
        "def sum16(b):\n"
        "    s = sum(struct.unpack('!%dH' % (len(b) // 2), b)); s = (s >> 16) + (s & 0xffff); return ~(s + (s >> "
        "16)) & 0xffff\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\n"
        "for n in range(2000):\n"
        "    kind = (0, 3, 11)[n % 3]\n"
        "    body = os.urandom(4 + 28 + 8)\n"
        "    if n % 2: body = body[:4] + b'\\x45' + body[5:13] + b'\\x01' + body[14:]\n"
        "    message = struct.pack('!BBH', kind, 0, 0) + body\n"
        "    check = sum16(message) ^ (n % 7 == 0)\n"
        "    s.sendto(message[:2] + struct.pack('!H', check) + message[4:], ('10.0.1.1', 0))\n"
    )
    process = h1.start("/usr/bin/python3", "-c", script)
    shown = router.cli("ping 10.0.1.2 repeat 20 interval 0.02")
    process.wait(timeout=30)
    assert "20 sent, 20 received, 0% packet loss" in shown
    assert router.errors()["bad ICMP checksum"] > 100


def test_hosts_of_ipv6_answer(two_hosts6):
    router, h1, _ = two_hosts6
    shown = router.cli("ping 2001:db8:1::2 repeat 3 interval 0.05")
    assert [answer[:4] for answer in answers(shown)] == [("96", "2001:db8:1::2", str(n), "64") for n in (1, 2, 3)]
    assert shown.endswith("\n\nStatistics: 3 sent, 3 received, 0% packet loss\n")
    assert h1.counter("Icmp6InEchos") == 3 and h1.counter("Icmp6InCsumErrors") == 0
    assert router.errors()["ICMPv6 answers to our requests"] == 3
    # From an address of another interface, whose network h1 reaches by the router.
    assert "1 received" in router.cli("ping ipv6 2001:db8:1::2 repeat 1 source e1")


def test_hosts_answer_on_their_link_only_addresses(two_hosts6):
    router, h1, h2 = two_hosts6
    for host, interface in ((h1, "e0"), (h2, "e1")):
        address = link_local(host)
        shown = router.cli(f"ping {address} source {interface} repeat 2 interval 0.05")
        assert [answer[1] for answer in answers(shown)] == [address, address]
        assert "2 sent, 2 received" in shown
    with pytest.raises(CommandFailed, match="name its interface"):
        router.cli(f"ping {link_local(h1)}")


def test_requests_of_ipv6_are_as_long_as_the_mtu_lets_them(two_hosts6):
    router, *_ = two_hosts6
    for size in (0, 1, 17, 100, 1451, 1452):
        shown = router.cli(f"ping 2001:db8:2::2 repeat 1 size {size}")
        assert answers(shown)[0][0] == str(size + 8)
    with pytest.raises(CommandFailed, match=r"over the mtu of 1500 .*: size is at most 1452"):
        router.cli("ping 2001:db8:2::2 size 1453")
    assert "2 sent, 2 received" in router.cli("ping 2001:db8:2::1 repeat 2 interval 0.01 size 65487")


def test_what_is_said_of_requests_of_ipv6_is_told(two_hosts6):
    router, h1, h2 = two_hosts6
    h1.set("net/ipv6/conf/all/forwarding", 1)
    h1.ip("-6", "route", "add", "unreachable", "2001:db8:98::/48")
    h1.ip("-6", "route", "add", "prohibit", "2001:db8:97::/48")
    for network in ("2001:db8:99::/48", "2001:db8:98::/48", "2001:db8:97::/48"):
        router.cli(f"ip route add {network} via 2001:db8:1::2")
    for asked, ttl, said in (
        ("2001:db8:99::1", 1, "ttl_exceeded_in_transit"),
        ("2001:db8:98::1", 9, "destination_unreachable_no_route"),
        ("2001:db8:97::1", 9, "administratively_prohibited"),
    ):
        line = router.cli(f"ping {asked} repeat 1 ttl {ttl}").splitlines()[0]
        assert line == f"From 2001:db8:1::2: icmp_seq=1 {said}"
    # A link further on carries less.
    h2.set("net/ipv6/conf/all/forwarding", 1)
    h2.ip("-6", "route", "add", "2001:db8:3::/64", "via", "2001:db8:2::1", "mtu", "lock", 1300)
    router.cli("ip route add 2001:db8:3::/64 via 2001:db8:2::2")
    shown = router.cli("ping 2001:db8:3::9 repeat 1 size 1300")
    assert shown.splitlines()[0] == "From 2001:db8:2::2: icmp_seq=1 packet_too_big", shown


@pytest.mark.slow
def test_an_absent_neighbour_of_ipv6_is_told_of(lab):
    router, *_ = lab.two_hosts6("tap")
    for asked, us in (("2001:db8:1::99", "2001:db8:1::1"), ("fe80::99", r"fe80::[0-9a-f:]+")):
        source = " source e0" if asked.startswith("fe80") else ""
        shown = router.cli(f"ping {asked} repeat 4 interval 1{source}")
        assert re.search(rf"From {us}: icmp_seq=1 address_unreachable\n", shown), shown
        assert shown.endswith("\nStatistics: 4 sent, 0 received, 100% packet loss\n")
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "the requests are given up")
    assert router.errors()["echo requests of this router that were not forwarded"] >= 2
