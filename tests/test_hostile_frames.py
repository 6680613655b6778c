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
            scapy.Ether(src=host, dst=station, type=0x8847) / scapy.Raw(b"\x00\x10\x00\x40\x00\x20\x01\x40") / ip / scapy.UDP(),
            ether / ip / scapy.UDP(dport=4789) / scapy.VXLAN(vni=7) / ether / ip / scapy.UDP(),
        )
    ]


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
    before = router.counters("e0")["rx_packets"]
    wire = h1.frames()
    for number in range(FRAMES):
        wire.send(mutated(chance, models))
        if number % 256 == 255:
            # Not faster than it takes them: a full ring would hide what was not looked at.
            wait_until(
                lambda: router.counters("e0")["rx_packets"] - before >= 0.99 * (number - 256), "frames are taken in"
            )
    wait_until(lambda: router.counters("e0")["rx_packets"] - before >= 0.99 * FRAMES, "all frames are taken in")
    # Forged ARP may have left absent neighbours; what waits for them is given up in time.
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "nothing is held", seconds=8)
    assert len(router.errors()) > 10, "the frames met few checks"
    for host in (h1, h2):
        host.ip("neigh", "flush", "all")
    assert h1.reaches("10.0.2.2")
    assert h2.reaches("10.0.1.2")
