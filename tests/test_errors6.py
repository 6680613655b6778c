"""Every named error, end and counter of IPv6: the packet from outside that provokes it, and what is sent.

`test_errors` has those of IPv4.

    h1 (2001:db8:1::2) ---- e0 [ router ] e1 ---- h2 (2001:db8:2::2)
              2001:db8:1::1          2001:db8:2::1
"""

import pytest

from test_errors import DATA, E0, E1, EVERYBODY, H1, H2, STRANGER, Case, check_names, frame, on_e0, provoke
from test_errors import changed, made_bench, program_names, scapy

SECTIONS = {"Neighbor Discovery", "Multicast listeners", "IPv6", "ICMPv6"}
US, US2, HOST1, HOST2 = "2001:db8:1::1", "2001:db8:2::1", "2001:db8:1::2", "2001:db8:2::2"
ABSENT = "2001:db8:2::99"
#: What the router's interface to h1 calls itself on its link.
ON_LINK = "fe80::ff:fe00:1000"

COMMANDS = [
    "set ip6 dad transmits 0",
    f"set interface ip address e0 {US}/64",
    f"set interface ip address e1 {US2}/64",
    f"ip6 neighbor e0 {HOST1} {H1}",
    f"ip6 neighbor e1 {HOST2} {H2}",
    "ip route add 2001:db8:20::/48 via drop",
    "ip route add 2001:db8:21::/48 via punt",
    "ip route add 2001:db8:22::/48 via unreachable",
    "ip route add 2001:db8:27::/48 via prohibit",
]

NOT_FROM_OUTSIDE = {
    ("icmp6-neighbor-discovery", "solicitation that the host answers"): "of pairs with Linux: test_linux_cp",
    **{
        ("*", f"control is busy, {lost}"): "control would have to be stopped: graph tests"
        for lost in ("not learned", "not asked", "answer not told", "not sent")
    },
    **{
        (node, "no free buffer"): "all buffers would have to be used up: graph tests"
        for node in ("ip6-ping", "ip6-redirect")
    },
    ("ip6-ping", "echo request has no link to go onto"): "an interface would have to go inside a round: graph tests",
    ("icmp6-neighbor-discovery", "interface is gone"): "an interface would have to go inside a round",
    **{
        ("*", short): "all buffers would have to be used up: graph tests"
        for short in ("could not allocate buffer", "out of buffers")
    },
    ("ip6-frag", "malformed packet"): "the kernel knows no such offload of ICMPv6: graph tests",
    ("ip6-frag", "mtu too small to fragment for"): "no interface has an MTU that small",
    ("ip6-icmp-error", "no ICMPv6 error about a packet of ours"): "the route back would have to go inside a round",
    ("ip6-icmp-input", "packet of ours came back to us"): "what the router sends to itself asks for something",
    ("ip6-lookup", "too many tables in a row"): "lookup-ip6-dst counts them",
    ("ip6-route-counters", "too many tables in a row"): "lookup-ip6-dst counts them",
    ("ip6-load-balance", "too many tables in a row"): "lookup-ip6-dst counts them",
    ("*", "route leads to nothing"): "a guard against tables that contradict each other",
    ("ip6-rewrite", "no room for the link header"): "buffers have room for the longest link header",
}

#: Rates and bounds are in the graph tests `floods_for_absent_neighbours_are_bounded` and `rates_bound_...`, pings in
#: `test_router_ping`, counters that need a second to pass in the graph tests of `ip6`.
IN_OTHER_TESTS = {
    # In test_mpls_errors.
    ("ip6-discover-neighbor", "next hop of a label did not answer"),
    ("ip6-discover-neighbor", "hold queue full"),
    ("ip6-local", "ip6 destination is a tentative address"),
    ("ip6-discover-neighbor", "too many packets wait for neighbours"),
    ("ip6-discover-neighbor", "neighbor solicitations throttled"),
    ("ip6-discover-neighbor", "neighbour did not answer lately"),
    ("ip6-icmp-error", "ICMPv6 errors limited by rate"),
    ("ip6-icmp-error", "no address to send an ICMPv6 error from"),
    ("ip6-icmp-error", "echo requests of this router that were not forwarded"),
    ("ip6-icmp-input", "ICMPv6 answers to our requests"),
    ("ip6-ping", "echo requests sent"),
    ("icmp6-neighbor-discovery", "neighbor advertisements limited by rate"),
    ("icmp6-neighbor-discovery", "neighbor learning limited by rate"),
    ("icmp6-neighbor-discovery", "router discovery limited by rate"),
    ("icmp6-multicast-listener", "multicast listener messages limited by rate"),
    ("icmp6-neighbor-discovery", "asker answered, not learned"),
    ("icmp6-neighbor-discovery", "neighbor advertisements received"),
    ("icmp6-neighbor-discovery", "neighbor advertisement without a link address"),
    ("icmp6-neighbor-discovery", "neighbor has an address of ours"),
    # Those of addresses that are not used yet are in the graph tests of `dad.rs`: the number in a question is not
    # known here.
    ("icmp6-neighbor-discovery", "neighbor solicitation of a tentative address"),
    ("icmp6-neighbor-discovery", "duplicate address probe of ours came back"),
    ("ip6-icmp-input", "no address to answer an ICMPv6 echo from"),
}


def ip6(dst, src=HOST1, **more):
    return scapy.IPv6(src=src, dst=dst, **more)


def udp6(dst, src=HOST1, data=DATA, **more):
    return ip6(dst, src, **more) / scapy.UDP(sport=1000, dport=2000) / data


def to_us(*packets):
    return on_e0(*map(frame, packets))


def told(about, kind, code, word=0):
    """What the router tells h1 about a packet: its bytes as they came, up to 1280 in all."""
    quoted = bytes(about)[: 1280 - 48]
    message = bytes([kind, code, 0, 0]) + word.to_bytes(4, "big") + quoted
    answer = scapy.IPv6(src=US, dst=about.src, hlim=64, nh=58) / scapy.Raw(message)
    sum_ = scapy.in6_chksum(58, answer, message)
    message = message[:2] + sum_.to_bytes(2, "big") + message[4:]
    return (0, scapy.Ether(src=E0, dst=H1) / scapy.IPv6(src=US, dst=about.src, hlim=64, nh=58) / scapy.Raw(message))


def error(node, name, packet, kind, code, word=0, **more):
    """One that the sender is told of, which `ip6-icmp-error` counts by itself."""
    return Case(node, name, to_us(packet), [told(packet, kind, code, word)], **more)


def sent(name, packet, kind, code, word=0, **more):
    return error("ip6-icmp-error", name, packet, kind, code, word, **more)


def solicited_node(address):
    return scapy.inet_ntop(scapy.socket.AF_INET6, scapy.in6_getnsma(scapy.inet_pton(scapy.socket.AF_INET6, address)))


def asks(target=US, src=HOST1, option=None, dst=None, hlim=255, **more):
    """A neighbour solicitation."""
    packet = scapy.IPv6(src=src, dst=dst or solicited_node(target), hlim=hlim)
    packet /= scapy.ICMPv6ND_NS(tgt=target, **more)
    return packet / scapy.ICMPv6NDOptSrcLLAddr(lladdr=option) if option else packet


def in_a_fragment(packet):
    """The packet, whole, with a fragment header."""
    return scapy.IPv6(src=packet.src, dst=packet.dst, hlim=packet.hlim) / scapy.IPv6ExtHdrFragment() / packet.payload


def says(target, option=STRANGER, dst="ff02::1", src=None, **flags):
    """A neighbour advertisement."""
    packet = scapy.IPv6(src=src or target, dst=dst, hlim=255) / scapy.ICMPv6ND_NA(tgt=target, **{"R": 0, **flags})
    return packet / scapy.ICMPv6NDOptDstLLAddr(lladdr=option) if option else packet


def answered(to, mac, target=US, solicited=1):
    message = scapy.ICMPv6ND_NA(tgt=target, R=1, S=solicited, O=1) / scapy.ICMPv6NDOptDstLLAddr(lladdr=E0)
    return (0, scapy.Ether(src=E0, dst=mac) / scapy.IPv6(src=target, dst=to, hlim=255) / message)


def discovery(name, packet, **more):
    return Case("icmp6-neighbor-discovery", name, on_e0(frame(packet, src=STRANGER)), **more)


def listener(message, src="fe80::9", hlim=1, alert=scapy.RouterAlert()):
    """A message about multicast listeners, with the option that has routers look at it."""
    return ip6("ff02::16", src, hlim=hlim) / scapy.IPv6ExtHdrHopByHop(options=[alert]) / message


def listeners(name, packet, **more):
    return Case("icmp6-multicast-listener", name, on_e0(frame(packet, src=STRANGER)), **more)


def options(packet, *kinds, header=scapy.IPv6ExtHdrDestOpt):
    """With an extension header of one option of a kind that nobody knows."""
    for kind in kinds:
        packet /= header(options=[scapy.HBHOptUnknown(otype=kind, optlen=4, optdata=bytes(4))])
    return packet


def echo(dst=US, data=DATA, **more):
    return ip6(dst, **more) / scapy.ICMPv6EchoRequest(id=7, seq=1, data=data)


def fragment(number, offset, data, more=True, nh=58, dst=US, **other):
    """A fragment of a datagram to the router. Each case needs its own number: the router remembers a discarded
    datagram for a minute."""
    return (
        ip6(dst, **other)
        / scapy.IPv6ExtHdrFragment(nh=nh, offset=offset // 8, m=int(more), id=number)
        / scapy.Raw(data)
    )


def part(number, start, end, more=True, **other):
    """From and to units of eight bytes, of a protocol that is not known."""
    data = bytes(at % 256 for at in range(start * 8, end * 8))
    return fragment(number, start * 8, data, more, nh=99, **other)


def cut(number, packet, step):
    """A packet in fragments with so many bytes of its payload each, by hand (RFC 8200 4.5)."""
    whole = scapy.IPv6(bytes(packet))
    data, kept = bytes(whole.payload), {"src": whole.src, "dst": whole.dst, "hlim": whole.hlim}
    return [
        fragment(number, at, data[at : at + step], at + step < len(data), **kept) for at in range(0, len(data), step)
    ]


def reassembly(name, packets, out=(), **more):
    return Case("ip6-local-full-reassembly", name, to_us(*packets), list(out), **more)


def replied_in_fragments(data):
    """The router's answer to an echo request, in the fragments that every link carries."""
    whole = scapy.IPv6(src=US, dst=HOST1, hlim=64) / scapy.ICMPv6EchoReply(id=7, seq=1, data=data)
    carried = bytes(scapy.IPv6(bytes(whole)).payload)
    parts = range(0, len(carried), 1232)
    return [
        (
            0,
            scapy.Ether(src=E0, dst=H1)
            / scapy.IPv6(src=US, dst=HOST1, hlim=64)
            / scapy.IPv6ExtHdrFragment(nh=58, offset=at // 8, m=int(at + 1232 < len(carried)), id=0)
            / carried[at : at + 1232],
        )
        for at in parts
    ]


def tcp6(flags="S", dst=US, src=HOST1, **more):
    return ip6(dst, src) / scapy.TCP(sport=1000, dport=80, seq=100, ack=0, flags=flags, **more)


UDP = scapy.UDP(sport=1000, dport=2000) / DATA
RESET = [
    (
        0,
        scapy.Ether(src=E0, dst=H1)
        / scapy.IPv6(src=US, dst=HOST1, hlim=64)
        / scapy.TCP(sport=80, dport=1000, seq=0, ack=101, flags="RA", window=0),
    )
]
REPLY = scapy.IPv6(src=US, dst=HOST1, hlim=64) / scapy.ICMPv6EchoReply(id=7, seq=1, data=DATA)
REPLIED = [(0, scapy.Ether(src=E0, dst=H1) / REPLY)]
#: What moves when a datagram of fragments is an echo request.
ECHOED = {("ip6-local-full-reassembly", "successful reassemblies"): 1, ("ip6-icmp-input", "echo replies sent"): 1}
SHORT = ["set ip6-full-reassembly timeout 100 expire-walk-interval 10"]
AS_BEFORE = ["set ip6-full-reassembly default"]
BROKEN_FIELD = {("ip6-icmp-error", "ICMPv6 erroneous header field sent"): 1}
UNEVEN, BEYOND = fragment(16, 8, bytes(1001)), fragment(17, 65528, bytes(8), more=False)
HEADERS = ip6(US) / scapy.IPv6ExtHdrDestOpt(options=[scapy.PadN(optdata=bytes(84))])
HEADERS /= scapy.IPv6ExtHdrFragment(nh=58, offset=1, m=1, id=18) / scapy.Raw(bytes(8))
INCOMPLETE = ip6(US) / scapy.IPv6ExtHdrFragment(nh=6, m=1, id=19) / scapy.Raw(bytes(16))
LONG = bytes(range(256)) * 5
LEAK = ["ip6 table add 9", "ip route add 2001:db8:25::/48 via ip6-lookup-in-table 9"]
NO_LEAK = ["ip route del 2001:db8:25::/48", "ip6 table del 9"]
JUMBO = ip6(HOST2, plen=0) / scapy.IPv6ExtHdrHopByHop(options=[scapy.Jumbo(jumboplen=70000)]) / DATA
TWO_FRAGMENTS = ip6(US) / scapy.IPv6ExtHdrFragment(nh=44, m=0, id=1) / scapy.IPv6ExtHdrFragment(nh=17, m=1, id=2) / UDP
DISCOVERY = "icmp6-neighbor-discovery"

#: Another router on the network of h1, of which it can be told; and one that is not known by its link-local address.
REDIRECTING = [
    f"ip6 neighbor e0 fe80::3 {STRANGER}",
    f"ip6 neighbor e0 2001:db8:1::3 {STRANGER}",
    "ip route add 2001:db8:60::/48 via fe80::3 e0",
    "ip route add 2001:db8:61::/48 via 2001:db8:1::3",
    "set interface ip6 redirects e0 enable",
]
NOT_REDIRECTING = [
    "set interface ip6 redirects e0 disable",
    "ip route del 2001:db8:61::/48",
    "ip route del 2001:db8:60::/48",
    "ip6 neighbor del e0 2001:db8:1::3",
    "ip6 neighbor del e0 fe80::3",
]


def onward(packet):
    """A packet that goes out where it came in, to that router."""
    out = scapy.IPv6(bytes(packet))
    out.hlim -= 1
    return (0, scapy.Ether(src=E0, dst=STRANGER) / out)


def redirected(packet):
    message = scapy.ICMPv6ND_Redirect(tgt="fe80::3", dst=packet.dst) / scapy.ICMPv6NDOptDstLLAddr(lladdr=STRANGER)
    quote = bytes(packet)[: len(packet) // 8 * 8]
    message /= scapy.ICMPv6NDOptUnknown(type=4, len=1 + len(quote) // 8, data=bytes(6) + quote)
    return (0, scapy.Ether(src=E0, dst=H1) / scapy.IPv6(src=ON_LINK, dst=packet.src, hlim=255) / message)


CASES = [
    Case(
        "ip6-input",
        "ip6 not enabled",
        to_us(udp6(HOST2)),
        given=[f"ip6 neighbor del e0 {HOST1}", f"set interface ip address del e0 {US}/64"],
        undo=[f"set interface ip address e0 {US}/64", f"ip6 neighbor e0 {HOST1} {H1}"],
    ),
    Case("ip6-input", "ip6 length < 40 bytes", on_e0(bytes(frame(udp6(HOST2)))[:53])),
    Case("ip6-input", "ip6 version != 6", on_e0(changed(frame(udp6(HOST2)), 14, 0x50))),
    Case("ip6-input", "ip6 payload length > l2 length", on_e0(changed(frame(udp6(HOST2)), 19, 99))),
    Case("ip6-input", "ip6 jumbograms are not supported", to_us(JUMBO)),
    Case("ip6-input", "ip6 source is a group", to_us(udp6(HOST2, "ff0e::1"))),
    Case("ip6-input", "ip6 source is the loopback address", to_us(udp6(HOST2, "::1"))),
    Case("ip6-input", "ip6 source unspecified", to_us(udp6(HOST2, "::"))),
    Case("ip6-input", "ip6 source embeds an ip4 address", to_us(udp6(HOST2, "::ffff:10.0.0.1"))),
    Case("ip6-input", "ip6 destination unspecified", to_us(udp6("::"))),
    Case("ip6-input", "ip6 destination is the loopback address", to_us(udp6("::1"))),
    Case("ip6-input", "ip6 destination embeds an ip4 address", to_us(udp6("::ffff:10.0.0.1"))),
    Case("ip6-input", "ip6 group scope is of no link", to_us(udp6("ff01::1"))),
    Case("ip6-input", "ip6 multicast not routed", to_us(udp6("ff0e::1"))),
    Case("ip6-input", "ip6 link-local destination is not ours", to_us(udp6("fe80::5"))),
    Case(
        "ip6-rx-urpf",
        "uRPF drop (strict)",
        to_us(udp6(HOST2, "2001:db8:2::7")),
        given=["set urpf ip6 strict e0"],
        undo=["set urpf ip6 off e0"],
    ),
    Case(
        "ip6-rx-urpf",
        "uRPF drop (loose)",
        to_us(udp6(HOST2, "2001:db8:77::7")),
        given=["set urpf ip6 loose e0"],
        undo=["set urpf ip6 off e0"],
    ),
    Case("ip6-lookup", "blackholed packets", to_us(udp6("2001:db8:20::1"))),
    Case("ip6-punt-redirect", "punted, but no host interface takes it", to_us(udp6("2001:db8:21::1"))),
    Case(
        "ip6-load-balance",
        "blackholed packets",
        to_us(udp6("2001:db8:24::3")),
        # Whichever of the two a flow takes.
        given=["ip route add 2001:db8:24::/48 via drop via 2001:db8:20::9"],
        undo=["ip route del 2001:db8:24::/48"],
    ),
    Case(
        "ip6-punt-redirect",
        "punted, but no host interface takes it",
        to_us(udp6("2001:db8:24::3")),
        given=[
            "ip6 table add 9",
            "ip route add table 9 2001:db8:24::/48 via punt",
            "ip route add 2001:db8:24::/48 via punt via ip6-lookup-in-table 9",
        ],
        undo=["ip route del 2001:db8:24::/48", "ip6 table del 9"],
    ),
    Case(
        "lookup-ip6-dst",
        "blackholed packets",
        to_us(udp6("2001:db8:25::1")),
        given=[*LEAK, "ip route add table 9 2001:db8:25::/48 via drop"],
        undo=NO_LEAK,
    ),
    Case(
        "ip6-punt-redirect",
        "punted, but no host interface takes it",
        to_us(udp6("2001:db8:25::1")),
        given=[*LEAK, "ip route add table 9 2001:db8:25::/48 via punt"],
        undo=NO_LEAK,
    ),
    Case(
        "lookup-ip6-dst",
        "too many tables in a row",
        to_us(udp6("2001:db8:25::1")),
        given=[*LEAK, "ip route add table 9 2001:db8:25::/48 via ip6-lookup-in-table 0"],
        undo=["ip route del table 9 2001:db8:25::/48", *NO_LEAK],
    ),
    Case(
        "ip6-route-counters",
        "blackholed packets",
        to_us(udp6("2001:db8:20::1")),
        given=["set ip6 route counters 2001:db8:20::/48 enable"],
        undo=["set ip6 route counters 2001:db8:20::/48 disable"],
    ),
    Case(
        "ip6-punt-redirect",
        "punted, but no host interface takes it",
        to_us(udp6("2001:db8:21::1")),
        given=["set ip6 route counters 2001:db8:21::/48 enable"],
        undo=["set ip6 route counters 2001:db8:21::/48 disable"],
    ),
    Case("ip6-rewrite", "group-addressed frame is not forwarded", on_e0(frame(udp6(HOST2), dst=EVERYBODY))),
    error(
        "ip6-rewrite",
        "ip6 packets too big",
        udp6(HOST2, data=bytes(1400)),
        2,
        0,
        1300,
        given=["set interface mtu ip6 1300 e1"],
        undo=["set interface mtu ip6 default e1"],
        also={("ip6-icmp-error", "ICMPv6 packet too big sent"): 1},
    ),
    # To the router itself.
    Case("ip6-local", "ip6 spoofed local-address packet drops", to_us(udp6(US, US2))),
    Case("ip6-local", "ip6 source lookup miss", to_us(udp6(US, "2001:db8:99::1"))),
    Case(
        "ip6-local",
        "ip6 extension header beyond the packet",
        on_e0(changed(frame(options(ip6(US), 0x1E) / UDP), 14 + 41, 9)),
    ),
    Case("ip6-local", "ip6 too many extension headers", to_us(options(ip6(US), *[0x1E] * 9) / UDP)),
    Case("ip6-local", "ip6 second fragment header", to_us(TWO_FRAGMENTS)),
    Case("ip6-local", "ip6 option says discard", to_us(options(ip6(US), 0x5E) / UDP)),
    Case("ip6-local", "ip6 no next header", to_us(ip6(US, nh=59))),
    # UDP and TCP.
    Case("ip6-udp-lookup", "udp header truncated", to_us(ip6(US, nh=17) / bytes(7))),
    Case("ip6-udp-lookup", "inconsistent udp/ip lengths", to_us(ip6(US) / scapy.UDP(sport=1, dport=2, len=7) / DATA)),
    Case("ip6-udp-lookup", "bad udp checksum", to_us(ip6(US) / scapy.UDP(sport=1, dport=2, chksum=1) / DATA)),
    Case("ip6-udp-lookup", "udp checksum is zero", to_us(ip6(US) / scapy.UDP(sport=1, dport=2, chksum=0) / DATA)),
    Case("tcp6-reset", "TCP resets sent", to_us(tcp6()), RESET),
    Case("tcp6-reset", "TCP resets sent", to_us(options(ip6(US), 0x1E) / tcp6().payload), RESET),
    Case(
        "tcp6-reset",
        "TCP resets limited by rate",
        to_us(tcp6(), tcp6()),
        RESET,
        given=["set ip icmp error-rate 1 burst 1"],
        undo=["set ip icmp error-rate default"],
        also={("tcp6-reset", "TCP resets sent"): 1},
    ),
    Case("tcp6-reset", "inconsistent ip/tcp lengths", to_us(ip6(US, nh=6) / bytes(19))),
    Case("tcp6-reset", "bad tcp checksum", to_us(tcp6(chksum=1))),
    Case("tcp6-reset", "no TCP reset about a reset", to_us(tcp6("R"))),
    Case("tcp6-reset", "no TCP reset about a group-addressed segment", to_us(tcp6(dst="ff02::1"))),
    Case("tcp6-reset", "no TCP reset to a source that is not one host", to_us(tcp6(dst=ON_LINK, src="::"))),
    Case("tcp6-reset", "TCP reset from a link-local address would leave its link", to_us(tcp6(dst=ON_LINK, src=HOST2))),
    Case("tcp6-reset", "no TCP reset from an anycast address", to_us(tcp6(dst="2001:db8:1::"))),
    # For a host behind the router.
    Case(
        "ip6-punt-redirect",
        "punted packet came back from the host",
        to_us(udp6("2001:db8:21::1")),
        given=[f"ip6 punt redirect add rx all via {HOST1} e0"],
        undo=["ip6 punt redirect del rx all"],
    ),
    Case(
        "ip6-punt-redirect",
        "punted packets limited by rate",
        to_us(udp6(US, hlim=1), udp6(US, hlim=1)),
        [(1, scapy.Ether(src=E1, dst=H2) / udp6(US, hlim=1))],
        given=[f"ip6 punt redirect add rx all via {HOST2} e1", "set ip6 punt rate 1"],
        undo=["ip6 punt redirect del rx all", "set ip6 punt rate default"],
    ),
    Case("ip6-icmp-input", "echo replies sent", to_us(echo()), [(0, scapy.Ether(src=E0, dst=H1) / REPLY)]),
    Case("ip6-icmp-input", "ICMPv6 message shorter than its header", to_us(ip6(US, nh=58) / b"\x80\0\0")),
    Case("ip6-icmp-input", "bad ICMPv6 checksum", on_e0(changed(frame(echo()), -1, 0xEE))),
    Case(
        "ip6-icmp-input",
        "ICMPv6 answer from a link-local address would leave its link",
        to_us(echo(ON_LINK, src=HOST2)),
    ),
    Case(
        "ip6-punt-redirect",
        "ICMPv6 message that asks for nothing",
        to_us(ip6(US) / scapy.ICMPv6EchoReply(id=7, seq=1, data=DATA)),
    ),
    # Fragments to the router itself, and of its own.
    reassembly(
        "successful reassemblies", cut(1, echo(), 8), REPLIED, also={("ip6-icmp-input", "echo replies sent"): 1}
    ),
    reassembly(
        "successful reassemblies", cut(2, echo(), 8)[::-1], REPLIED, also={("ip6-icmp-input", "echo replies sent"): 1}
    ),
    reassembly("duplicate fragments", [cut(3, echo(), 16)[n] for n in (1, 1, 0)], REPLIED, also=ECHOED),
    reassembly("overlapping fragments", [part(4, 0, 2), part(4, 1, 3)]),
    reassembly("overlapping fragments", [part(5, 1, 3), part(5, 1, 3, more=False)]),
    reassembly("last fragments disagree", [part(6, 4, 5, more=False), part(6, 6, 7, more=False)]),
    reassembly("last fragments disagree", [part(7, 4, 5, more=False), part(7, 6, 7)]),
    reassembly("fragments disagree on congestion", [part(8, 0, 1), part(8, 1, 2, tc=3)]),
    reassembly(
        "fragment of a discarded datagram",
        [part(9, 0, 2), part(9, 1, 3), part(9, 3, 4)],
        also={("ip6-local-full-reassembly", "overlapping fragments"): 1},
    ),
    reassembly(
        "fragment chain too long",
        [part(10, 0, 1), part(10, 2, 3), part(10, 4, 5)],
        given=["set ip6-full-reassembly max-reassembly-length 2"],
        undo=AS_BEFORE,
    ),
    reassembly("reassembled datagram beyond 65535 bytes", cut(11, ip6(US) / scapy.Raw(bytes(65496)), 1448)),
    reassembly("malformed packets", [fragment(12, 8, b"")]),
    reassembly(
        "drops due to reassemblies limit of one source",
        [part(13, 0, 1), *cut(14, echo(), 16)],
        REPLIED,
        given=["set ip6-full-reassembly max-per-source 1"],
        undo=AS_BEFORE,
        also=ECHOED,
    ),
    reassembly(
        "drops due to concurrent reassemblies limit",
        [part(15, 0, 1), *cut(20, echo(), 16)],
        REPLIED,
        given=["set ip6-full-reassembly max-reassemblies 1"],
        undo=AS_BEFORE,
        also=ECHOED,
    ),
    reassembly("fragments dropped due to reassembly timeout", [part(21, 1, 2)], given=SHORT, undo=AS_BEFORE),
    reassembly(
        "reassembly timeout, sender told",
        [part(22, 0, 60)],
        [told(part(22, 0, 60), 3, 1)],
        given=SHORT,
        undo=AS_BEFORE,
        also={("ip6-icmp-error", "ICMPv6 reassembly time exceeded sent"): 1},
    ),
    reassembly("fragment length is no multiple of 8", [UNEVEN], [told(UNEVEN, 4, 0, 4)], also=BROKEN_FIELD),
    reassembly("fragment ends beyond 65535 bytes", [BEYOND], [told(BEYOND, 4, 0, 42)], also=BROKEN_FIELD),
    reassembly("headers before the fragment header too long", [HEADERS]),
    Case(
        "ip6-frag",
        "packet fragmented",
        to_us(echo(data=LONG)),
        replied_in_fragments(LONG),
        given=["set interface mtu ip6 1280 e0"],
        undo=["set interface mtu ip6 default e0"],
        also={("ip6-frag", "number of sent fragments"): 2, ("ip6-icmp-input", "echo replies sent"): 1},
    ),
    # What senders are told.
    sent("ICMPv6 incomplete first fragment sent", INCOMPLETE, 4, 3),
    sent("ICMPv6 no route sent", udp6("2001:db8:99::1"), 1, 0),
    sent("ICMPv6 admin prohibited sent", udp6("2001:db8:27::1"), 1, 1),
    sent("ICMPv6 address unreachable sent", udp6("2001:db8:22::1"), 1, 3),
    sent("ICMPv6 port unreachable sent", udp6(US), 1, 4),
    sent("ICMPv6 hop limit exceeded sent", udp6(HOST2, hlim=1), 3, 0),
    sent(
        "ICMPv6 erroneous header field sent",
        ip6(US) / scapy.IPv6ExtHdrRouting(type=0, addresses=[HOST2], segleft=1) / UDP,
        4,
        0,
        42,
    ),
    sent("ICMPv6 unrecognized next header sent", ip6(US, nh=99) / DATA, 4, 1, 6),
    sent("ICMPv6 unrecognized option sent", options(ip6(US), 0x9E) / UDP, 4, 2, 42),
    Case(
        "ip6-icmp-error",
        "ICMPv6 beyond scope of source sent",
        to_us(udp6(HOST2, "fe80::9")),
        [
            (
                0,
                scapy.Ether(src=E0, dst=H1)
                / scapy.IPv6(src=ON_LINK, dst="fe80::9", hlim=64)
                / scapy.ICMPv6DestUnreach(code=2)
                / bytes(udp6(HOST2, "fe80::9")),
            )
        ],
        given=[f"ip6 neighbor e0 fe80::9 {H1}"],
        undo=["ip6 neighbor del e0 fe80::9"],
    ),
    Case(
        "ip6-icmp-error",
        "no ICMPv6 error about an ICMPv6 error",
        to_us(ip6("2001:db8:22::1") / scapy.ICMPv6DestUnreach() / bytes(udp6(HOST2))),
    ),
    Case("ip6-icmp-error", "no ICMPv6 error about a group-addressed packet", to_us(udp6("ff02::1"))),
    Case("ip6-icmp-error", "no ICMPv6 error to a source that is not one host", to_us(ip6(ON_LINK, "::", nh=99) / DATA)),
    Case(
        "ip6-redirect",
        "ICMPv6 redirect sent",
        to_us(udp6("2001:db8:60::1")),
        [redirected(udp6("2001:db8:60::1")), onward(udp6("2001:db8:60::1"))],
        given=REDIRECTING,
        undo=NOT_REDIRECTING,
    ),
    Case(
        "ip6-redirect",
        "ICMPv6 redirects limited by rate",
        to_us(*[udp6("2001:db8:60::2")] * 2),
        [redirected(udp6("2001:db8:60::2")), *[onward(udp6("2001:db8:60::2"))] * 2],
        given=REDIRECTING,
        undo=NOT_REDIRECTING,
        also={("ip6-redirect", "ICMPv6 redirect sent"): 1},
    ),
    Case(
        "ip6-redirect",
        "ICMPv6 redirect not sent, next hop is no link-local address",
        to_us(udp6("2001:db8:61::1")),
        [onward(udp6("2001:db8:61::1"))],
        given=REDIRECTING,
        undo=NOT_REDIRECTING,
    ),
    # Neighbor Discovery.
    Case(DISCOVERY, "neighbor advertisements sent", on_e0(frame(asks(option=H1))), [answered(HOST1, H1)]),
    Case(
        DISCOVERY,
        "neighbor advertisements sent",
        on_e0(frame(asks(src="::"), src=STRANGER)),
        [answered("ff02::1", "33:33:00:00:00:01", solicited=0)],
    ),
    discovery("neighbor discovery from beyond the link", asks(hlim=254)),
    discovery("neighbor discovery in a fragment", in_a_fragment(asks(option=STRANGER))),
    Case(
        DISCOVERY,
        "neighbor discovery in a fragment",
        on_e0(*(frame(piece, src=STRANGER) for piece in cut(23, asks(option=STRANGER), 16))),
        also={("ip6-local-full-reassembly", "successful reassemblies"): 1},
    ),
    discovery("neighbor discovery code is not 0", asks(code=1)),
    discovery(
        "neighbor discovery message too short", ip6(US, hlim=255) / scapy.ICMPv6Unknown(type=135, msgbody=bytes(15))
    ),
    discovery("neighbor discovery option is malformed", asks() / scapy.ICMPv6NDOptUnknown(len=0, data=bytes(6))),
    discovery("neighbor discovery target is a group", asks(target="ff02::5", dst=US)),
    discovery("solicitation from nobody is malformed", asks(src="::", option=STRANGER)),
    discovery("neighbor advertisement to a group is marked solicited", says("2001:db8:1::77", S=1, O=1)),
    discovery("neighbor discovery link address is no station's", asks(option="33:33:00:00:00:01")),
    discovery(
        "neighbor discovery sender is not on link",
        asks(src="2001:db8:7::9"),
        given=["ip route add 2001:db8:7::/48 via 2001:db8:1::2"],
        undo=["ip route del 2001:db8:7::/48"],
    ),
    discovery("neighbor advertisement of who was not asked for", says("2001:db8:1::77", O=1)),
    discovery("neighbor advertisement does not override", says(HOST1, O=0)),
    discovery("contradicts a static neighbor", says(HOST1, O=1)),
    discovery("neighbor solicitation for another station", asks(target="2001:db8:1::77", dst="ff02::1")),
    discovery(
        "router advertisements received", ip6("ff02::1", "fe80::9", hlim=255) / scapy.ICMPv6ND_RA(routerlifetime=1800)
    ),
    discovery(
        "router advertisement is not of a link-local address",
        ip6("ff02::1", "2001:db8:1::9", hlim=255) / scapy.ICMPv6ND_RA(),
    ),
    discovery(
        "redirect to a router is not heeded",
        ip6("ff02::1", "fe80::9", hlim=255) / scapy.ICMPv6ND_Redirect(tgt="fe80::9", dst="2001:db8:7::1"),
    ),
    listeners("multicast listener queries received", listener(scapy.ICMPv6MLQuery2(mladdr="ff02::77"))),
    listeners(
        "multicast listener reports received",
        listener(scapy.ICMPv6MLReport2(records=[scapy.ICMPv6MLDMultAddrRec(rtype=4, dst="ff02::9")])),
    ),
    listeners("multicast listener message from beyond the link", listener(scapy.ICMPv6MLQuery2(), hlim=2)),
    listeners("multicast listener message without router alert", listener(scapy.ICMPv6MLQuery2(), alert=scapy.Pad1())),
    listeners(
        "multicast listener message is not of a link-local address",
        listener(scapy.ICMPv6MLQuery2(), src="2001:db8:1::9"),
    ),
    listeners("multicast listener message too short", listener(scapy.ICMPv6Unknown(type=130, msgbody=bytes(9)))),
    listeners(
        "multicast listener message about no group",
        listener(scapy.ICMPv6MLReport2(records=[scapy.ICMPv6MLDMultAddrRec(rtype=4, dst="2001:db8::9")])),
    ),
    discovery(
        "router solicitations received", scapy.IPv6(src="fe80::7", dst="ff02::2", hlim=255) / scapy.ICMPv6ND_RS()
    ),
]


@pytest.fixture(scope="module")
def bench(privileges):
    with made_bench(COMMANDS) as made:
        yield made


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.node}: {case.name}")
def test_a_packet_moves_its_counter_by_one_and_no_other(bench, case):
    try:
        provoke(bench, case)
    finally:
        # Others are not to fail with it.
        bench.give(case.undo)
    before, bench.is_set = bench.is_set, bench.setting()
    assert bench.is_set == before, "the case puts back what it changed"


def test_every_name_has_a_packet_or_a_reason(privileges):
    check_names(program_names(SECTIONS), CASES, IN_OTHER_TESTS, set(NOT_FROM_OUTSIDE))
