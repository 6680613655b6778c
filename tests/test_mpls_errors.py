"""Every named error and counter of MPLS: the frame from outside that provokes it, and what is sent. Every label
operation, to the byte.

    h1 (10.0.1.2, 2001:db8:1::2) ---- e0 [ router ] e1 ---- h2 (10.0.2.2, 2001:db8:2::2)
"""

import pytest

from lab import wait_until
from test_errors import DATA, E0, E1, EVERYBODY, H1, H2, LISTENERS_MAC, Case, check_names
from test_errors import made_bench, program_names, provoke, same, scapy

Label = pytest.importorskip("scapy.contrib.mpls", reason="needs python3-scapy (make deps)").MPLS

SECTIONS = {"MPLS"}
MPLS = 0x8847
#: Customers' addresses, which the router knows nothing of.
HERE, THERE = "192.0.2.1", "198.51.100.1"
HERE6, THERE6 = "2001:db8:aa::1", "2001:db8:bb::1"

COMMANDS = """
set ip6 dad transmits 0
mpls table add 0
set interface mpls e0 enable
set interface ip address e0 2001:db8:1::1/64
set interface ip address e1 2001:db8:2::1/64
ip6 neighbor e1 2001:db8:2::2 02:aa:00:00:00:02
set interface mtu mpls 1000 e1
ip table add 7
ip route add table 7 198.51.100.0/24 via 10.0.2.2 next-hop-table 0
mpls local-label add 16 via 10.0.2.2 e1 out-labels 17
mpls local-label add 18 via 10.0.2.2 e1
mpls local-label add 19 eos via 2001:db8:2::2 e1
mpls local-label add 20 eos via 10.0.2.2 e1 uniform
mpls local-label add 21 eos via 2001:db8:2::2 e1 uniform
mpls local-label add 22 non-eos via mpls-lookup-in-table 0
mpls local-label add 23 eos via drop
mpls local-label add 24 eos via 10.0.2.2 e1 out-labels 30 31 17
mpls local-label add 25 eos via ip4-lookup-in-table 7
mpls local-label add 26 eos via ip4-lookup-in-table 7 uniform
mpls local-label add 27 eos via 10.0.2.2 e1 out-labels 0
mpls local-label add 28 eos via 10.0.2.2 e1 out-labels 3
mpls local-label add 29 via 10.0.2.2 e1 out-labels 40 via 10.0.2.2 e1 out-labels 41
mpls local-label add 50 eos via 10.0.2.98 e1
mpls local-label add 51 eos via 2001:db8:2::98 e1
ip route add 48.0.0.0/24 via 10.0.2.2 e1 out-labels 17 18
ip route add 49.0.0.0/24 via 10.0.2.2 e1 out-labels 17 18 ttl 7 exp 3
ip route add 50.0.0.0/24 via 10.0.2.2 e1 out-labels 17 18 uniform
ip route add 2001:db8:50::/48 via 2001:db8:2::2 e1 out-labels 17 2 uniform
ip route add 2001:db8:48::/48 via 2001:db8:2::2 e1 out-labels 17 2
ip route add 2001:db8:49::/48 via 10.0.2.2 e1 out-labels 17 2
mpls local-label add 30 eos via 10.0.2.2 e1 out-labels 30 31 ttl 9 exp 2
mpls local-label add 31 eos via 10.0.2.2 e1 out-labels 30 31 uniform
mpls local-label add 32 non-eos via 10.0.2.2 e1 uniform
ip route add 51.0.0.0/24 via 10.0.2.2 e1 out-labels 17 18 19
ip route add 52.0.0.0/24 via 10.0.2.2 e1 out-labels 17 18 19 20 21
ip route add 53.0.0.0/24 via 10.0.2.2 e1 out-labels 0
ip route add 54.0.0.0/24 via 10.0.2.2 e1 out-labels 3
ip route add 192.0.2.9/32 via 10.0.2.2 e1 out-labels 17
ip route add 55.0.0.0/24 via 192.0.2.9 out-labels 100
mpls local-label add 33 eos via 192.0.2.9 out-labels 200
""".strip().splitlines()

NOT_FROM_OUTSIDE = {
    ("mpls-load-balance", "*"): "its buckets are single paths, and those lead somewhere",
    ("*", "label leads to nothing"): "a guard against tables that contradict each other",
    ("mpls-input", "offload request makes no sense"): "Linux lets nobody ask for it: graph tests",
}


def stack(*entries):
    """A label stack of (label, class, time to live), or (label, class, time to live, bottom)."""
    packed = b""
    for number, (label, klass, ttl, *told) in enumerate(entries, 1):
        bottom = told[0] if told else number == len(entries)
        packed += bytes(Label(label=label, cos=klass, s=int(bottom), ttl=ttl))
    return packed


def labelled(inner, *entries, src=H1, dst=E0):
    return bytes(scapy.Ether(src=src, dst=dst, type=MPLS)) + stack(*entries) + bytes(inner)


def out(inner, *entries):
    """To h2: labelled, or a packet that has lost its last label."""
    if entries:
        return [(1, labelled(inner, *entries, src=E1, dst=H2))]
    return [(1, bytes(scapy.Ether(src=E1, dst=H2, type=0x86DD if bytes(inner)[0] >> 4 == 6 else 0x800)) + bytes(inner))]


def udp(src=HERE, dst=THERE, data=DATA, **more):
    return scapy.IP(src=src, dst=dst, **more) / scapy.UDP(sport=1000, dport=2000) / data


def udp6(src=HERE6, dst=THERE6, data=DATA, **more):
    return scapy.IPv6(src=src, dst=dst, **more) / scapy.UDP(sport=1000, dport=2000) / data


def udp_of(flow):
    return scapy.IP(src=HERE, dst=THERE) / scapy.UDP(sport=1000 + flow, dport=2000) / DATA


def udp6_of(flow):
    return scapy.IPv6(src=HERE6, dst=THERE6) / scapy.UDP(sport=1000 + flow, dport=2000) / DATA


def with_(packet, **fields):
    """A packet as it was made, with some fields of its header changed and the checksum right."""
    made = type(packet)(bytes(packet))
    if isinstance(made, scapy.IP):
        del made.chksum
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def onto_e0(packet):
    return scapy.Ether(src=H1, dst=E0) / packet


def spoilt(packet, at, value):
    raw = bytearray(bytes(packet))
    raw[at] = value
    return bytes(raw)


def extended(packet, *entries):
    """What is told of a stack behind 128 bytes of a packet (RFC 4884, RFC 4950)."""
    labels = stack(*entries)
    extension = b"\x20\0\0\0" + (4 + len(labels)).to_bytes(2, "big") + b"\x01\x01" + labels
    total = scapy.checksum(extension)
    return bytes(packet)[:128].ljust(128, b"\0") + extension[:2] + total.to_bytes(2, "big") + extension[4:]


def told(packet, kind, code, *came, mtu=0):
    """The ICMP error about a labelled packet, which goes on along its path: label 16 becomes 17."""
    message = bytes([kind, code, 0, 0, 0, 32]) + mtu.to_bytes(2, "big") + extended(packet, *came)
    message = message[:2] + scapy.checksum(message).to_bytes(2, "big") + message[4:]
    answer = scapy.IP(src="10.0.1.1", dst=packet.src, tos=0xC0, ttl=64, id=0, proto=1) / message
    return out(answer, *along(came))


def told6(packet, kind, word, data, *came):
    message = bytes([kind, 0, 0, 0]) + word + data
    answer = scapy.IPv6(src="2001:db8:1::1", dst=packet.src, hlim=64, nh=58)
    message = message[:2] + scapy.in6_chksum(58, answer / message, message).to_bytes(2, "big") + message[4:]
    return out(answer / message, *along(came))


def along(came):
    (_, klass, _), *others = came
    return [(17, klass, 254)] + [(label, klass, 255) for label, klass, _ in others]


PIPE4, PIPE6 = (f"ip{version}-mpls-label-disposition-pipe" for version in (4, 6))
UNIFORM4, UNIFORM6 = (f"ip{version}-mpls-label-disposition-uniform" for version in (4, 6))
LEADS_NOWHERE, TOLD_NOBODY = "mpls label leads nowhere", "no ICMP error about such a labelled packet"
NO_SENDER = "mpls packet without an ip sender to notify"
LONG = udp(data=bytes(1000 - 28), id=7)
DF = with_(LONG, flags="DF")
LONG6 = udp6(data=bytes(1000 - 48))
ADDRESSES6 = "e0 2001:db8:1::1/64", "e1 2001:db8:2::1/64"
TOO_BIG = {("mpls-output", "mpls packets too big"): 1}


def case(node, name, *frames, out=(), **more):
    return Case(node, name, [(0, made) for made in frames], list(out), **more)


CASES = [
    case(
        "mpls-input",
        "mpls not enabled",
        labelled(udp(), (16, 0, 9)),
        given=["set interface mpls e0 disable"],
        undo=["set interface mpls e0 enable"],
    ),
    case("mpls-input", "mpls label stack cut short", labelled(b"", (16, 0, 9))[:17]),
    case("mpls-input", "mpls in a group-addressed frame", labelled(udp(), (16, 0, 9), dst=EVERYBODY)),
    case("mpls-lookup", LEADS_NOWHERE, labelled(udp(), (999, 0, 9))),
    case("mpls-lookup", "mpls router alert label", labelled(udp(), (1, 0, 9), (16, 0, 9))),
    case("mpls-lookup", "mpls label stack cut short", labelled(b"\0\1", (22, 0, 9, False))),
    case("mpls-lookup", "blackholed packets", labelled(udp(), (23, 0, 9))),
    case("mpls-lookup", "too many labels in a row", labelled(udp(), *[(22, 0, 9)] * 4, (16, 0, 9))),
    case("mpls-icmp-error", NO_SENDER, labelled(b"\x10" * 40, (16, 0, 1))),
    case("mpls-icmp-error", TOLD_NOBODY, labelled(udp("224.0.0.1"), (16, 0, 1))),
    case(
        "mpls-icmp-error",
        "ICMP time exceeded sent",
        labelled(udp(ttl=9), (16, 5, 1)),
        out=told(udp(ttl=9), 11, 0, (16, 5, 1)),
    ),
    case(
        "mpls-icmp-error",
        "ICMPv6 hop limit exceeded sent",
        labelled(udp6(hlim=9), (16, 5, 1)),
        out=told6(udp6(hlim=9), 3, b"\x10\0\0\0", extended(udp6(hlim=9), (16, 5, 1)), (16, 5, 1)),
    ),
    case("mpls-icmp-error", "mpls packet too long for its way out", labelled(LONG, (16, 0, 9)), also=TOO_BIG),
    case(
        "mpls-icmp-error",
        "ICMP fragmentation needed sent",
        labelled(DF, (16, 0, 9)),
        also=TOO_BIG,
        out=told(DF, 3, 4, (16, 0, 9), mtu=996),
    ),
    case(
        "mpls-icmp-error",
        "ICMPv6 packet too big sent",
        labelled(LONG6, (16, 0, 9)),
        also=TOO_BIG,
        out=told6(LONG6, 2, (996).to_bytes(4, "big"), bytes(LONG6)[: 996 - 48], (16, 0, 9)),
    ),
    case(
        "mpls-icmp-error",
        "ICMP errors limited by rate",
        *[labelled(udp(), (16, 0, 1))] * 2,
        out=told(udp(), 11, 0, (16, 0, 1)),
        given=["set ip icmp error-rate 1 burst 1"],
        undo=["set ip icmp error-rate default"],
        also={("mpls-icmp-error", "ICMP time exceeded sent"): 1},
    ),
    case(
        "mpls-icmp-error",
        "no address to send an ICMP error from",
        labelled(udp6(), (16, 0, 1)),
        given=[f"set interface ip address del {there}" for there in ADDRESSES6],
        undo=[f"set interface ip address {there}" for there in ADDRESSES6],
    ),
    *(
        case(node, "ip4 header behind the label is unsound", labelled(spoilt(udp(), 10, 0), (label, 0, 9)))
        for node, label in ((PIPE4, 18), (UNIFORM4, 20))
    ),
    *(
        case(node, "ip4 address behind the label is no host's", labelled(udp("127.0.0.1"), (label, 0, 9)))
        for node, label in ((PIPE4, 18), (UNIFORM4, 20))
    ),
    *(
        case(node, "ip6 header behind the label is unsound", labelled(spoilt(udp6(), 4, 9), (label, 0, 9)))
        for node, label in ((PIPE6, 19), (UNIFORM6, 21))
    ),
    *(
        case(node, "ip6 address behind the label is no host's", labelled(udp6("ff02::1"), (label, 0, 9)))
        for node, label in ((PIPE6, 19), (UNIFORM6, 21))
    ),
]

#: What comes, and what goes out. Where the last label goes the packet is forwarded as one of IP, and loses a hop.
OPERATIONS = {
    "swap": (labelled(udp(), (16, 5, 9)), out(udp(), (17, 5, 8))),
    "swap, above others": (labelled(udp(), (16, 5, 9), (99, 2, 7)), out(udp(), (17, 5, 8), (99, 2, 7))),
    "swap of what is no packet of IP": (labelled(b"\x10abc", (16, 0, 255)), out(b"\x10abc", (17, 0, 254))),
    "swap and push": (labelled(udp(), (24, 5, 9)), out(udp(), (30, 5, 8), (31, 5, 8), (17, 5, 8))),
    "pop": (labelled(udp(ttl=33), (18, 5, 9)), out(with_(udp(), ttl=32))),
    "pop, ip6": (labelled(udp6(hlim=33), (19, 5, 9)), out(udp6(hlim=32))),
    "pop keeps the class": (labelled(udp(ttl=33, tos=0xBB), (18, 5, 9)), out(with_(udp(tos=0xBB), ttl=32))),
    "pop keeps the class, ip6": (labelled(udp6(hlim=33, tc=0xBB), (19, 5, 9)), out(udp6(hlim=32, tc=0xBB))),
    "pop, above others": (labelled(udp(), (18, 5, 9), (99, 2, 77)), out(udp(), (99, 2, 77))),
    "pop, uniform": (labelled(udp(ttl=33), (20, 5, 9)), out(with_(udp(), ttl=8, tos=5 << 5))),
    "pop, uniform, ip6": (labelled(udp6(hlim=33), (21, 5, 9)), out(with_(udp6(), hlim=8, tc=5 << 5))),
    "pop and lookup": (labelled(udp(ttl=33), (25, 5, 9)), out(with_(udp(), ttl=32))),
    "pop and lookup, uniform": (labelled(udp(ttl=33), (26, 5, 9)), out(with_(udp(), ttl=8, tos=5 << 5))),
    "pop twice": (labelled(udp(ttl=33), (22, 0, 9), (25, 5, 9)), out(with_(udp(), ttl=32))),
    "explicit null comes": (labelled(udp(dst="10.0.2.2", ttl=33), (0, 0, 9)), out(with_(udp(dst="10.0.2.2"), ttl=32))),
    "explicit null goes": (labelled(udp(), (27, 5, 9)), out(udp(), (0, 5, 8))),
    "implicit null": (labelled(udp(ttl=33), (28, 5, 9)), out(with_(udp(), ttl=32))),
    "push": (
        scapy.Ether(src=H1, dst=E0) / udp(dst="48.0.0.1", ttl=33),
        out(udp(dst="48.0.0.1", ttl=32), (17, 0, 64), (18, 0, 64)),
    ),
    "push with values": (
        scapy.Ether(src=H1, dst=E0) / udp(dst="49.0.0.1", ttl=33),
        out(udp(dst="49.0.0.1", ttl=32), (17, 3, 7), (18, 3, 7)),
    ),
    "push, uniform": (
        scapy.Ether(src=H1, dst=E0) / udp(dst="50.0.0.1", ttl=33, tos=5 << 5),
        out(udp(dst="50.0.0.1", ttl=32, tos=5 << 5), (17, 5, 32), (18, 5, 32)),
    ),
    "push, uniform, ip6": (
        onto_e0(udp6(dst="2001:db8:50::1", hlim=33, tc=5 << 5)),
        out(udp6(dst="2001:db8:50::1", hlim=32, tc=5 << 5), (17, 5, 32), (2, 5, 32)),
    ),
    "push, ip6": (
        scapy.Ether(src=H1, dst=E0) / udp6(dst="2001:db8:48::1", hlim=33),
        out(udp6(dst="2001:db8:48::1", hlim=32), (17, 0, 64), (2, 0, 64)),
    ),
    "swap and push, with values": (labelled(udp(), (30, 5, 9)), out(udp(), (30, 2, 9), (31, 5, 8))),
    "swap and push, uniform": (labelled(udp(), (31, 5, 9)), out(udp(), (30, 5, 8), (31, 5, 8))),
    "swap behind another path": (labelled(udp(), (33, 6, 9)), out(udp(), (17, 0, 64), (200, 6, 8))),
    "swap keeps padding": (labelled(bytes(udp()) + bytes(9), (16, 0, 9)), out(bytes(udp()) + bytes(9), (17, 0, 8))),
    "pop drops padding": (labelled(bytes(udp(ttl=33)) + bytes(9), (18, 0, 9)), out(with_(udp(), ttl=32))),
    "pop, options": (
        labelled(udp(ttl=33, options=scapy.IPOption_NOP() * 4), (18, 0, 9)),
        out(udp(ttl=32, options=scapy.IPOption_NOP() * 4)),
    ),
    "pop above others, uniform": (labelled(udp(), (32, 5, 9), (99, 1, 200)), out(udp(), (99, 5, 8))),
    "pop above others, uniform, of a longer life": (labelled(udp(), (32, 5, 200), (99, 1, 9)), out(udp(), (99, 5, 9))),
    "pop, uniform, of a longer life": (labelled(udp(ttl=33), (20, 5, 200)), out(with_(udp(), ttl=32, tos=5 << 5))),
    "pop, uniform, ip6, of a longer life": (
        labelled(udp6(hlim=33), (21, 5, 200)),
        out(with_(udp6(), hlim=32, tc=5 << 5)),
    ),
    "pop, uniform, keeps congestion": (labelled(udp(ttl=33, tos=0xBB), (20, 2, 9)), out(with_(udp(), ttl=8, tos=0x5B))),
    "explicit null of ip6 comes": (
        labelled(udp6(dst="2001:db8:2::2", hlim=33), (2, 0, 9)),
        out(udp6(dst="2001:db8:2::2", hlim=32)),
    ),
    "explicit null above others": (labelled(udp(ttl=33), (0, 5, 9), (18, 1, 7)), out(with_(udp(), ttl=32))),
    "entropy label on its way": (
        labelled(udp(), (16, 5, 9), (7, 5, 9), (777, 0, 0)),
        out(udp(), (17, 5, 8), (7, 5, 9), (777, 0, 0)),
    ),
    "entropy label at the end": (labelled(udp(ttl=33), (25, 5, 9), (7, 5, 9), (777, 0, 0)), out(with_(udp(), ttl=32))),
    "push of three": (
        onto_e0(udp(dst="51.0.0.1", ttl=33)),
        out(udp(dst="51.0.0.1", ttl=32), *[(label, 0, 64) for label in (17, 18, 19)]),
    ),
    "push of five": (
        onto_e0(udp(dst="52.0.0.1", ttl=33)),
        out(udp(dst="52.0.0.1", ttl=32), *[(label, 0, 64) for label in (17, 18, 19, 20, 21)]),
    ),
    "push of explicit null": (onto_e0(udp(dst="53.0.0.1", ttl=33)), out(udp(dst="53.0.0.1", ttl=32), (0, 0, 64))),
    "push of implicit null": (onto_e0(udp(dst="54.0.0.1", ttl=33)), out(udp(dst="54.0.0.1", ttl=32))),
    "push below another path": (
        onto_e0(udp(dst="55.0.0.1", ttl=33)),
        out(udp(dst="55.0.0.1", ttl=32), (17, 0, 64), (100, 0, 64)),
    ),
    "push, ip6 over ip4": (
        scapy.Ether(src=H1, dst=E0) / udp6(dst="2001:db8:49::1", hlim=33),
        out(udp6(dst="2001:db8:49::1", hlim=32), (17, 0, 64), (2, 0, 64)),
    ),
}


@pytest.fixture(scope="module")
def bench(privileges):
    with made_bench(COMMANDS) as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.node}: {case.name}")
def test_a_frame_moves_its_counter_by_one_and_no_other(bench, case):
    try:
        provoke(bench, case)
    finally:
        bench.give(case.undo)
    before, bench.is_set = bench.is_set, bench.setting()
    assert bench.is_set == before, "the case puts back what it changed"


def without_reports(frames):
    """Those of listeners come at times of chance."""
    return [made for made in frames if not made.startswith(LISTENERS_MAC)]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_is_right_to_the_byte(bench, operation):
    frame, expected = OPERATIONS[operation]
    before = bench.counts()
    bench.wires[0].send(bytes(frame))
    came = bench.fence()
    bench.gather(came, {1: 1})
    came = [without_reports(frames) for frames in came]
    assert [made.hex() for made in came[1]] == [bytes(made).hex() for _, made in expected]
    assert not came[0] and not bench.moved(before)


#: Packets that differ in so many ways; by one of them, or by none, the way is chosen.
FLOWS = range(40)
SPREAD = {
    "ports": [(udp_of(number), []) for number in FLOWS],
    "ports, ip6": [(udp6_of(number), []) for number in FLOWS],
    "ports, below others": [(udp_of(number), [(99, 0, 9)]) for number in FLOWS],
    "labels of what is no packet of IP": [(b"\x10abc", [(100 + number, 0, 9)]) for number in FLOWS],
    "entropy labels": [(udp(), [(7, 0, 9), (1000 + number, 0, 0)]) for number in FLOWS],
}
TOGETHER = {
    "one flow": [(udp(ttl=number + 9, id=number, data=bytes(number)), []) for number in FLOWS],
    "one flow, ip6": [(udp6(hlim=number + 9, data=bytes(number)), []) for number in FLOWS],
    "one entropy label": [(udp_of(number), [(7, 0, 9), (1000, 0, 0)]) for number in FLOWS],
}


@pytest.mark.parametrize("differ", [*SPREAD, *TOGETHER])
def test_flows_are_spread_over_two_ways_and_none_is_split(bench, differ):
    """By what is inside and the labels, or by the entropy label alone (RFC 6790 4.3)."""
    before = bench.counts()
    packets = (SPREAD | TOGETHER)[differ]
    for inner, below in packets * 2:
        bench.wires[0].send(labelled(inner, (29, 1, 9), *below))
    came = bench.fence()
    bench.gather(came, {1: 2 * len(packets)})
    came = without_reports(came[1])
    labels = [Label(made[14:18]).label for made in came]
    assert [made.hex() for made in came] == [
        out(inner, (label, 1, 8), *below)[0][1].hex() for (inner, below), label in zip(packets * 2, labels, strict=True)
    ]
    assert labels[: len(packets)] == labels[len(packets) :]
    if differ in SPREAD:
        assert set(labels) == {40, 41}
        assert min(labels.count(40), labels.count(41)) >= len(labels) // 5
    else:
        assert set(labels) in ({40}, {41})
    assert not bench.moved(before)


def test_nobody_is_redirected_to_a_next_hop_that_wants_labels(bench):
    """Who went there by himself would bring none."""
    bench.give(
        [
            "ip neighbor e0 10.0.1.3 02:bb:00:00:00:09",
            "set interface ip redirects e0 enable",
            "ip route add 59.0.0.0/24 via 10.0.1.3 e0 out-labels 17",
        ]
    )
    try:
        before = bench.counts()
        bench.wires[0].send(bytes(onto_e0(udp(src="10.0.1.2", dst="59.0.0.1", ttl=33))))
        came = bench.fence()
        bench.gather(came, {0: 1})
        came = [earlier + later for earlier, later in zip(came, bench.fence(), strict=True)]
        expected = labelled(udp(src="10.0.1.2", dst="59.0.0.1", ttl=32), (17, 0, 64), src=E0, dst="02:bb:00:00:00:09")
        assert [made.hex() for made in without_reports(came[0])] == [expected.hex()]
        assert not bench.moved(before)
    finally:
        bench.give(
            [
                "ip route del 59.0.0.0/24",
                "set interface ip redirects e0 disable",
                "ip neighbor del e0 10.0.1.3",
            ]
        )


def test_an_entropy_label_has_no_hops_in_what_is_told_along_its_path_either(bench):
    """RFC 6790 4.2: nobody is to forward by it."""
    bench.wires[0].send(labelled(udp(), (16, 5, 1), (7, 5, 1), (777, 0, 0)))
    came = bench.fence()
    bench.gather(came, {1: 1})
    [told_of] = without_reports(came[1])
    entries = [Label(told_of[at : at + 4]) for at in (14, 18, 22)]
    assert [(entry.label, entry.s) for entry in entries] == [(17, 0), (7, 0), (777, 1)]
    assert entries[2].ttl == 0


@pytest.mark.parametrize("network, kept", [(48, [(17, 0, 64), (18, 0, 64)]), (50, [(17, 5, 32), (18, 5, 32)])])
def test_each_part_of_a_cut_packet_is_labelled(bench, network, kept):
    """As long as the link carries with the labels."""
    packet = udp(dst=f"{network}.0.0.1", ttl=33, tos=0xA0, id=77, data=bytes(range(256)) * 5)
    bench.wires[0].send(bytes(onto_e0(packet)))
    came = bench.fence()
    bench.gather(came, {1: 2})
    onward = scapy.IP(bytes(with_(packet, ttl=32)))
    parts = scapy.fragment(onward, (1000 - 8 - 20) // 8 * 8)
    assert [made.hex() for made in without_reports(came[1])] == [bytes(out(part, *kept)[0][1]).hex() for part in parts]


@pytest.mark.parametrize(
    "label, inner, left",
    [
        (20, udp(ttl=33), with_(udp(ttl=33), ttl=1, tos=5 << 5)),
        (18, udp(ttl=1), udp(ttl=1)),
    ],
    ids=["uniform", "pipe"],
)
def test_a_packet_whose_hops_end_with_its_path_is_answered_onward(bench, label, inner, left):
    """By ICMP of IP, as no label is left; it is not for this router to know the way back."""
    before = bench.counts()
    bench.wires[0].send(labelled(inner, (label, 5, 1 if label == 20 else 9)))
    wait_until(lambda: bench.moved(before), "it is counted")
    came = bench.fence()
    bench.gather(came, {1: 1})
    assert bench.moved(before) == {("ip4-icmp-error", "ICMP time exceeded sent"): 1}
    [answer] = without_reports(came[1])
    answer = scapy.Ether(answer)[scapy.IP]
    assert (answer.src, answer.dst, answer[scapy.ICMP].type, answer[scapy.ICMP].code) == ("10.0.1.1", HERE, 11, 0)
    assert bytes(answer[scapy.ICMP])[8:] == bytes(left)


@pytest.mark.parametrize(
    "how, frame, expected",
    [
        (
            "ip route add 58.0.0.0/24 via 10.0.2.60 e1 out-labels 17 uniform",
            onto_e0(udp(dst="58.0.0.1", ttl=33, tos=3 << 5)),
            out(udp(dst="58.0.0.1", ttl=32, tos=3 << 5), (17, 3, 32)),
        ),
        (
            "mpls local-label add 60 eos via 10.0.2.60 e1 out-labels 30 31",
            labelled(udp(), (60, 5, 9)),
            out(udp(), (30, 5, 8), (31, 5, 8)),
        ),
        (
            "mpls local-label add 60 eos via 10.0.2.60 e1 uniform",
            labelled(udp(ttl=33), (60, 5, 9)),
            out(with_(udp(), ttl=8, tos=5 << 5)),
        ),
        (
            "mpls local-label add 60 non-eos via 10.0.2.60 e1 uniform",
            labelled(udp(), (60, 5, 9), (99, 1, 77)),
            out(udp(), (99, 5, 8)),
        ),
    ],
    ids=["push", "swap and push", "pop", "pop above others"],
)
def test_who_waits_for_his_next_hop_goes_as_if_he_had_not(bench, how, frame, expected):
    bench.give([how])
    try:
        bench.wires[0].send(bytes(frame))
        came = bench.fence()
        bench.gather(came, {1: 1})
        [asked] = [scapy.Ether(made) for made in without_reports(came[1])]
        assert asked[scapy.ARP].pdst == "10.0.2.60"
        answer = scapy.ARP(op=2, hwsrc=H2, psrc="10.0.2.60", hwdst=E1, pdst="10.0.2.1")
        bench.wires[1].send(bytes(scapy.Ether(src=H2, dst=E1) / answer))
        came = bench.fence()
        bench.gather(came, {1: 1})
        [went] = without_reports(came[1])
        assert same(went, expected[0][1])
    finally:
        undo = how.replace(" add ", " del ")
        bench.give([undo.split(" via ")[0], "ip neighbor del e1 10.0.2.60"])


@pytest.mark.parametrize("label, node", [(50, "ip4-arp"), (51, "ip6-discover-neighbor")])
def test_a_next_hop_of_a_label_that_does_not_answer_is_counted(bench, label, node):
    """Nobody is told: the path's end is elsewhere."""
    before = bench.counts()
    bench.wires[0].send(labelled(udp() if label == 50 else udp6(), (label, 0, 9)))
    wait_until(lambda: bench.moved(before), "it is given up", seconds=10)
    assert bench.moved(before) == {(node, "next hop of a label did not answer"): 1}
    came = [without_reports(frames) for frames in bench.fence()]
    assert not came[0] and 1 <= len(came[1]) <= 4


def test_every_name_has_a_frame_or_a_reason(privileges):
    check_names(program_names(SECTIONS), CASES, set(), set(NOT_FROM_OUTSIDE))
