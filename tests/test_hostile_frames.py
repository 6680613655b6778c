"""Frames made to break parsers. Nothing that comes in by a wire may stop the router."""

import random

import pytest

from lab import wait_until

FRAMES = 20_000
SEED = 20_261_120


def good_frames(scapy, station, host):
    """Frames that a router understands: what mutations start from."""
    ether = scapy.Ether(src=host, dst=station)
    ip = scapy.IP(src="10.0.1.2", dst="10.0.2.2")
    record_route = scapy.IPOption(b"\x07\x0b\x04" + bytes(8))
    message = scapy.IP(src="10.0.1.2", dst="10.0.1.1") / scapy.ICMP()
    return [
        bytes(frame)
        for frame in (
            ether / ip / scapy.UDP(sport=1, dport=2) / bytes(100),
            ether / ip / scapy.TCP(sport=1, dport=2, options=[("MSS", 1460), ("SAckOK", b"")]),
            ether / ip / scapy.ICMP() / bytes(1400),
            ether / message / bytes(56),
            ether / scapy.IP(src="10.0.1.2", dst="10.0.2.2", ttl=1) / scapy.UDP(),
            ether / scapy.IP(src="10.0.1.2", dst="192.0.2.1") / scapy.UDP(),
            ether / scapy.IP(src="10.0.1.2", dst="10.0.2.2", options=[record_route]) / scapy.UDP(),
            ether / scapy.IP(src="10.0.1.2", dst="10.0.2.2", flags="MF", frag=1) / bytes(64),
            ether / scapy.IP(src="10.0.1.2", dst="10.0.1.1") / scapy.ICMP(type=3, code=1) / bytes(message),
            ether / scapy.Dot1Q(vlan=5) / ip / scapy.UDP(),
            scapy.Ether(src=host, dst="ff:ff:ff:ff:ff:ff") / scapy.ARP(psrc="10.0.1.2", pdst="10.0.1.1", hwsrc=host),
            ether / scapy.ARP(op=2, psrc="10.0.1.2", pdst="10.0.1.1", hwsrc=host),
            ether / scapy.IPv6() / scapy.UDP(),
            ether / scapy.Dot1AD(vlan=6) / scapy.Dot1Q(vlan=5) / ip / scapy.TCP(),
            # What hand-off by flow looks into.
            scapy.Ether(src=host, dst=station, type=0x8847)
            / scapy.Raw(b"\x00\x10\x00\x40\x00\x20\x01\x40")
            / ip
            / scapy.UDP(),
            ether / ip / scapy.UDP(dport=4789) / scapy.VXLAN(vni=7) / ether / ip / scapy.UDP(),
        )
    ]


def good_frames6(scapy, station, host):
    """The same of IPv6: extension headers, fragments, and what stations and routers say to each other."""
    ether = scapy.Ether(src=host, dst=station)
    there = scapy.IPv6(src="2001:db8:1::2", dst="2001:db8:2::2")
    ours = scapy.IPv6(src="2001:db8:1::2", dst="2001:db8:1::1")
    on_link = scapy.IPv6(src="fe80::2", dst="ff02::1", hlim=255)
    group = lambda packet: scapy.Ether(src=host, dst="33:33:00:00:00:01") / packet
    option = scapy.ICMPv6NDOptSrcLLAddr(lladdr=host)
    alert = scapy.IPv6ExtHdrHopByHop(options=[scapy.RouterAlert(value=0)])
    to_routers = scapy.IPv6(src="fe80::2", dst="ff02::16", hlim=1)
    record = scapy.ICMPv6MLDMultAddrRec(rtype=4, dst="ff02::1:ff00:7")
    return [
        bytes(frame)
        for frame in (
            ether / there / scapy.UDP(sport=1, dport=2) / bytes(100),
            ether / there / scapy.TCP(sport=1, dport=2, options=[("MSS", 1440)]),
            ether / there / scapy.IPv6ExtHdrDestOpt(options=[scapy.PadN(optdata=bytes(4))]) / scapy.UDP(),
            ether / scapy.IPv6(src="2001:db8:1::2", dst="2001:db8:2::2", hlim=1) / scapy.UDP(),
            ether / scapy.IPv6(src="2001:db8:1::2", dst="2001:db8:99::2") / scapy.UDP(),
            ether / ours / scapy.ICMPv6EchoRequest(data=bytes(56)),
            ether / ours / alert / scapy.IPv6ExtHdrRouting(addresses=["2001:db8:2::2"]) / scapy.UDP(),
            ether / ours / scapy.IPv6ExtHdrFragment(nh=58, offset=0, m=1, id=7) / bytes(64),
            ether / ours / scapy.IPv6ExtHdrFragment(nh=58, offset=8, m=0, id=7) / bytes(64),
            ether / ours / scapy.ICMPv6PacketTooBig(mtu=1280) / there / scapy.UDP(),
            ether / ours / scapy.TCP(dport=80),
            group(on_link / scapy.ICMPv6ND_NS(tgt="2001:db8:1::1") / option),
            group(on_link / scapy.ICMPv6ND_NA(tgt="2001:db8:1::9") / scapy.ICMPv6NDOptDstLLAddr(lladdr=host)),
            group(on_link / scapy.ICMPv6ND_RS() / option),
            group(on_link / scapy.ICMPv6ND_RA() / option / scapy.ICMPv6NDOptPrefixInfo(prefix="2001:db8:1::")),
            group(on_link / scapy.ICMPv6ND_Redirect(tgt="fe80::2", dst="2001:db8:2::2")),
            group(to_routers / alert / scapy.ICMPv6MLQuery2()),
            group(to_routers / alert / scapy.ICMPv6MLReport2(records=[record])),
            ether / scapy.Dot1Q(vlan=5) / there / scapy.UDP(),
        )
    ]


def with_right_checksum(scapy, frame):
    """The frame as a sender would have made it: a checksum or length that is wrong hides the rest of the damage."""
    try:
        packet = scapy.Ether(frame)
        packet[scapy.IPv6].plen = None
        for layer in packet.iterpayloads():
            if "cksum" in layer.fields:
                del layer.cksum
        return bytes(packet)[:1514]
    except Exception:  # What scapy cannot read or write again goes as it is.
        return frame


def mutated(chance, models):
    """A frame with a few bytes changed, cut short or grown; or nothing but noise."""
    kind = chance.random()
    if kind < 0.1:
        return chance.randbytes(chance.randint(14, 1514))
    frame = bytearray(chance.choice(models))
    if kind < 0.2:
        # Noise behind headers that lead into the router.
        return bytes(frame[: chance.choice((14, 16, 20, 34))]) + chance.randbytes(chance.randint(0, 200))
    for _ in range(chance.randint(0, 4)):
        # Headers are hit more often than payloads.
        at = min(int(chance.expovariate(1 / 20)) + (14 if chance.random() < 0.8 else 0), len(frame) - 1)
        frame[at] = chance.choice((0, 1, 0x45, 0x7F, 0x80, 0xFF, chance.randrange(256)))
    if chance.random() < 0.3:
        del frame[chance.randint(14, len(frame)) :]
    elif chance.random() < 0.2:
        frame += chance.randbytes(chance.randint(1, 200))
    return bytes(frame[:1514])


def flood(router, host, frames):
    """Sends frames to e0, and waits until it has taken them in."""
    before = router.counters("e0")["rx_packets"]
    wire = host.frames()
    for number, frame in enumerate(frames):
        wire.send(frame)
        if number % 256 == 255:
            # Not faster than it takes them: a full ring would hide what was not looked at.
            wait_until(
                lambda: router.counters("e0")["rx_packets"] - before >= 0.99 * (number - 256), "frames are taken in"
            )
    wait_until(lambda: router.counters("e0")["rx_packets"] - before >= 0.99 * len(frames), "all frames are taken in")


@pytest.mark.parametrize("workers", ["one worker", "handed over"])
def test_random_and_mutated_frames_do_no_harm(lab, driver, workers):
    scapy = pytest.importorskip("scapy.all", reason="needs python3-scapy (make deps)")
    handed = workers == "handed over"
    router, h1, h2 = lab.two_hosts(driver, extra="cpu { workers 2 }\n" if handed else "")
    if handed:
        router.cli("set interface handoff e0 workers 0-1")
    assert h1.reaches("10.0.2.2")
    station = router.cli_json("show hardware-interfaces e0")["interfaces"][0]["mac"]
    models = good_frames(scapy, station, h1.mac())
    # A static neighbour, or a forged ARP reply would rightly lead the answers astray.
    router.cli(f"ip neighbor e0 10.0.1.2 {h1.mac()}")
    chance = random.Random(SEED)
    flood(router, h1, [mutated(chance, models) for _ in range(FRAMES)])
    # Forged ARP may have left absent neighbours; what waits for them is given up in time.
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "nothing is held", seconds=8)
    assert len(router.errors()) > 10, "the frames met few checks"
    for host in (h1, h2):
        host.ip("neigh", "flush", "all")
    assert h1.reaches("10.0.2.2")
    assert h2.reaches("10.0.1.2")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["one worker", "handed over"])
def test_so_do_frames_of_ip6(lab, driver, workers):
    scapy = pytest.importorskip("scapy.all", reason="needs python3-scapy (make deps)")
    handed = workers == "handed over"
    router, h1, h2 = lab.two_hosts6(driver, extra="cpu { workers 2 }\n" if handed else "")
    if handed:
        router.cli("set interface handoff e0 workers 0-1")
    # A static neighbour, or a forged advertisement would rightly lead the answers astray.
    for line in (
        f"ip6 neighbor e0 2001:db8:1::2 {h1.mac()}",
        "ip6 nd e0 no ra-suppress",
        "set ip6 mld querier e0 enable",
        "set interface ip6 redirects e0 enable",
        "set urpf ip6 strict e0",
        "set ip6-full-reassembly timeout 1000",
    ):
        router.cli(line)
    assert h1.reaches("2001:db8:2::2")
    station = router.cli_json("show hardware-interfaces e0")["interfaces"][0]["mac"]
    models = good_frames6(scapy, station, h1.mac())
    chance = random.Random(SEED)
    frames = [mutated(chance, models) for _ in range(FRAMES // 2)]
    frames = [with_right_checksum(scapy, frame) if chance.random() < 0.5 else frame for frame in frames]
    flood(router, h1, frames)
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "nothing is held", seconds=10)
    assert len(router.errors()) > 40, "the frames met few checks"
    for host in (h1, h2):
        host.ip("-6", "neigh", "flush", "all")
    # One that has an address of the router's, as a forged advertisement may say, is told of and gone when it is asked
    # for anew.
    router.cli("set interface state e0 down")
    router.cli("set interface state e0 up")
    router.wait_for_addresses6()
    assert h1.reaches("2001:db8:2::2")
    assert h2.reaches("2001:db8:1::2")
