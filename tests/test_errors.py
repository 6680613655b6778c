"""Every named error, end and counter: how a packet from outside provokes it, and what goes out.

One router with two hosts, which are wires only: scapy makes the frames that they send and those
that are expected on all wires, compared whole. A case moves its counter by one and no other, and
puts back what it changed. The program tells which names there are (`quiver generate errors-json`):
each has a case here or is in `NOT_FROM_OUTSIDE` with the reason.

    h1 (10.0.1.2) ---- e0 [ router ] e1 ---- h2 (10.0.2.2)
                 10.0.1.1          10.0.2.1
"""

import contextlib
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass, field

import pytest

from lab import QUIVER, Lab, run, wait_until

scapy = pytest.importorskip("scapy.all", reason="needs python3-scapy (make deps)")

SECTIONS = {
    "Devices, receiving",
    "Ethernet",
    "ARP",
    "IPv4",
    "ICMP",
    "UDP and TCP",
    "Mirroring",
    "Interfaces, sending",
    "Elsewhere",
}
H1, H2 = "02:aa:00:00:00:01", "02:aa:00:00:00:02"
STRANGER = "02:bb:00:00:00:01"
EVERYBODY = "ff:ff:ff:ff:ff:ff"
E0, E1 = "02:00:00:00:10:00", "02:00:00:00:10:01"
#: Of the interfaces by which the bench finds that all is done.
FENCES = ("02:00:00:00:10:08", "02:00:00:00:10:09")
DATA = b"sixteen bytes..."

COMMANDS = f"""
create packet-generator interface pg0
set interface ip address pg0 10.0.3.1/24
set interface state pg0 up
ip neighbor pg0 10.0.3.2 {STRANGER}
ip route add 20.0.0.0/8 via drop
ip route add 21.0.0.0/8 via punt
ip route add 22.0.0.0/8 via unreachable
ip route add 27.0.0.0/8 via prohibit
"""

#: Names that no packet from outside can provoke, by node and name (`*`: all of it), and why.
NOT_FROM_OUTSIDE = {
    ("virtio-input", "*"): "the same code as af-packet-input",
    ("af_xdp-input", "*"): "the same code as af-packet-input; what is its own: tests of the driver",
    ("memif-input", "*"): "its frames come by shared memory: test_memif",
    ("pg-input", "*"): "of the packet generator: graph tests",
    ("pg-stall", "*"): "of the packet generator: test_workers",
    ("af-packet-input", "malformed device header"): "Linux writes none: tests of the driver",
    ("af-packet-input", "frame too long"): "Linux brings none: tests of the driver",
    ("af-packet-input", "missed by the kernel's ring"): "the router would have to stop reading: tests of the driver",
    ("ethernet-input", "frame shorter than its header"): "Linux sends no frame shorter than a header: graph tests",
    ("ip4-input-no-checksum", "*"): "only the packet generator sends there; the checks are those of ip4-input",
    # Of interfaces that have a side in Linux.
    ("arp-reply", "ARP request that the host answers"): "test_linux_cp",
    ("llc-input", "unknown ethernet type"): "behind features only: graph tests",
    # Of moments that no packet can bring about.
    **{
        ("*", f"control is busy, {lost}"): "control would have to be stopped: graph tests"
        for lost in ("not learned", "not asked", "answer not told", "not sent")
    },
    **{
        ("*", short): "all buffers would have to be used up: graph tests"
        for short in (
            "no free buffer",
            "no free buffer to segment into",
            "no free buffer to mirror into",
            "could not allocate buffer",
            "out of buffers",
        )
    },
    ("SUBINTERFACE-output", "interface is down"): "a frame would have to be on its way when it goes down: graph tests",
    ("ip4-dhcp-client", "control is busy, DHCP answer not told"): "control would have to be stopped: graph tests",
    ("ip4-dhcp-client", "DHCP messages for our clients"): "an answer names the client's random transaction: test_dhcp",
    ("ip4-dhcp-client", "too many DHCP answers"): "a flood of answers to a random transaction: graph tests",
    ("ethernet-input", "interface is gone"): "an interface would have to go inside a round",
    ("interface-output", "no such interface"): "an interface would have to go inside a round",
    ("ip6-local-end-of-arc", "ip6 extension headers spoilt by a feature"): "no feature changes packets",
    ("interface-output-arc-end", "no such interface"): "an interface would have to go inside a round",
    ("ip4-icmp-error", "no address to send an ICMP error from"): "an address would have to go inside a round",
    # Guards.
    ("dispatcher", "*"): "faults of this program",
    ("ip4-load-balance", "directed broadcast not sent on"): "the routes that addresses bring have one path each",
    ("lookup-ip4-dst", "directed broadcast not sent on"): "an interface would have to be of another table: graph tests",
    ("ip4-lookup", "too many tables in a row"): "lookup-ip4-dst counts them",
    ("ip4-route-counters", "too many tables in a row"): "lookup-ip4-dst counts them",
    ("ip4-load-balance", "too many tables in a row"): "lookup-ip4-dst counts them",
    ("*", "route leads to nothing"): "a guard against tables that contradict each other",
    ("ip4-frag", "mtu too small to fragment for"): "no interface has an MTU that small",
    ("ip4-rewrite", "no room for the link header"): "buffers have room for the longest link header",
    ("tcp4-reset", "no TCP reset to a source that is not one host"): "a guard behind ip4-input's checks",
}


#: Names that have tests of their own below.
IN_OTHER_TESTS = {
    # In test_mpls_errors.
    ("ip4-arp", "next hop of a label did not answer"),
    ("ip4-arp", "too many packets wait for neighbours"),
    ("ip4-arp", "neighbour did not answer lately"),
    ("ip4-icmp-input", "ICMP answers to our requests"),
    ("ip4-icmp-error", "echo requests of this router that were not forwarded"),
    # In test_memif.
    ("INTERFACE-tx", "device has no room"),
}


#: All routers that hear reports of multicast listeners.
LISTENERS_MAC = bytes.fromhex("333300000016")


@dataclass
class Case:
    """An error and what provokes it. `send` and `out` are lists of (port, frame)."""

    node: str
    name: str
    send: list
    out: list = field(default_factory=list)
    #: A command that has the router send.
    asks: str = ""
    #: What is sent when it has counted.
    then: list = field(default_factory=list)
    #: Commands before and after.
    given: list = field(default_factory=list)
    undo: list = field(default_factory=list)
    #: Other names that must move with it: (node, name) to count.
    also: dict = field(default_factory=dict)
    #: Frames of which only the first bytes count: a virtio-net header comes first.
    vnet: bool = False


def frame(inner, src=H1, dst=E0, **more):
    return scapy.Ether(src=src, dst=dst, **more) / inner


def ip(dst, src="10.0.1.2", **more):
    return scapy.IP(src=src, dst=dst, **more)


def udp(dst, data=DATA, sport=1000, dport=2000, **more):
    return ip(dst, **more) / scapy.UDP(sport=sport, dport=dport) / data


def forwarded(packet, src=E1, dst=H2):
    """What goes out of a packet that is passed on."""
    onward = scapy.IP(bytes(packet))
    onward.ttl -= 1
    del onward.chksum
    return (1, scapy.Ether(src=src, dst=dst) / onward)


def punted(packet):
    """What goes out of a packet that the host's end of a wire is to take: it itself."""
    return (1, scapy.Ether(src=E1, dst=H2) / scapy.IP(bytes(packet)))


def icmp_error(about, kind, code, port=0, **more):
    """What the router tells the sender about a packet: its bytes as they came, up to 576 in all."""
    quoted = bytes(about)[: 576 - 28]
    us, sender = (("10.0.1.1", E0, H1), ("10.0.2.1", E1, H2))[port], about.src
    message = scapy.ICMP(type=kind, code=code, **more) / quoted
    # The identification is the router's to choose: see `same`.
    answer = scapy.IP(src=us[0], dst=sender, tos=0xC0, ttl=64, id=0) / message
    return (port, scapy.Ether(src=us[1], dst=us[2]) / answer)


def arp(op, src, psrc, pdst, dst=EVERYBODY, hwdst="00:00:00:00:00:00", ether_src=None):
    message = scapy.ARP(op=op, hwsrc=src, psrc=psrc, hwdst=hwdst, pdst=pdst)
    return scapy.Ether(src=ether_src or STRANGER, dst=dst) / message


def of_length(length, payload):
    """A frame with a length in place of a type."""
    return bytes(scapy.Ether(src=H1, dst=E0, type=length)) + payload


def llc(header):
    """An LLC frame for all bridges, filled up as a cable wants it."""
    told = bytes.fromhex(header)
    return (bytes(scapy.Ether(src=H1, dst="01:80:c2:00:00:00", type=len(told))) + told).ljust(60, b"\xee")


def spoilt(packet, **fields):
    """A frame whose IPv4 header says something else, its checksum right."""
    made = scapy.IP(bytes(packet))
    del made.chksum
    for name, value in fields.items():
        setattr(made, name, value)
    return frame(made)


def changed(made, at, value):
    """A frame with a byte changed, and nothing else."""
    copy = bytearray(bytes(made))
    copy[at] = value
    return bytes(copy)


def echo(dst="10.0.1.1", data=DATA, **more):
    return ip(dst, **more) / scapy.ICMP(type=8, id=7, seq=1) / data


def tcp(flags="S", dst="10.0.1.1", data=b"", **more):
    return ip(dst) / scapy.TCP(sport=1000, dport=80, seq=100, ack=0, flags=flags, **more) / data


def fragment(offset, data, more=True, proto=17, dst="10.0.2.2", **other):
    flags = "MF" if more else 0
    return ip(dst, proto=proto, frag=offset, flags=flags, **other) / data


def cut(packet, step):
    """A packet in fragments with so many bytes of its data each, by hand (RFC 791 3.2)."""
    whole = scapy.IP(bytes(packet))
    data, kept = bytes(whole.payload), {"src": whole.src, "id": whole.id, "ttl": whole.ttl}
    return [
        fragment(start // 8, data[start : start + step], start + step < len(data), whole.proto, whole.dst, **kept)
        for start in range(0, len(data), step)
    ]


def fragments_of(packet, mtu):
    """The fragments of a packet that is passed on."""
    return [forwarded(piece) for piece in cut(packet, (mtu - 20) // 8 * 8)]


def part(number, start, end, more=True, **other):
    """A part of a datagram to the router, from and to units of eight bytes. Each case takes a number of its own:
    a datagram that was discarded stays known for half a minute."""
    data = bytes(at % 256 for at in range(start * 8, end * 8))
    return fragment(start, data, more, proto=1, dst="10.0.1.1", id=number, **other)


def vnet(made, flags, kind, header_length, segment_size, start, offset):
    """A frame behind a virtio-net header, for a socket that takes one."""
    return struct.pack("=BBHHHH", flags, kind, header_length, segment_size, start, offset) + bytes(made)


EXPIRED = udp("10.0.2.2", ttl=1)
LOST = udp("99.9.9.9")
ABOUT = ip("10.0.2.2", src="10.0.2.9") / scapy.UDP(sport=1, dport=2) / DATA
LONG = udp("10.0.2.2", data=bytes(range(256)) * 4, id=77)
DF = udp("10.0.2.2", data=bytes(1000), flags="DF")
REPLY = scapy.IP(src="10.0.1.1", dst="10.0.1.2", ttl=64, id=1) / scapy.ICMP(type=0, id=7, seq=1) / DATA
REPLIED = [(0, scapy.Ether(src=E0, dst=H1) / REPLY)]


#: RFC 9293 3.10.7.1.
RESET = [
    (
        0,
        scapy.Ether(src=E0, dst=H1)
        / scapy.IP(src="10.0.1.1", dst="10.0.1.2", ttl=64, id=0, flags="DF")
        / scapy.TCP(sport=80, dport=1000, seq=0, ack=101, flags="RA", window=0),
    )
]
ASKS = {("ip4-ping", "echo requests sent"): 1}


#: What the router asks about an absent host, and an answer.
ASKED = (1, arp(1, E1, "10.0.2.1", "10.0.2.99", ether_src=E1))
ANSWERED = (1, arp(2, STRANGER, "10.0.2.99", "10.0.2.1", dst=E1, hwdst=E1))


#: Another router on the network of h1, of which it can be told.
REDIRECTING = [
    f"ip neighbor e0 10.0.1.3 {STRANGER}",
    "ip route add 60.0.0.0/8 via 10.0.1.3",
    "set interface ip redirects e0 enable",
]
NOT_REDIRECTING = ["set interface ip redirects e0 disable", "ip route del 60.0.0.0/8", "ip neighbor del e0 10.0.1.3"]


def onward(packet):
    """A packet that goes out where it came in, to that router."""
    return (0, forwarded(packet, src=E0, dst=STRANGER)[1])


def on_e0(*frames):
    return [(0, made) for made in frames]


def to_us(*packets):
    return on_e0(*map(frame, packets))


#: What moves when a datagram of fragments is an echo request.
ECHOED = {("ip4-local-full-reassembly", "successful reassemblies"): 1, ("ip4-icmp-input", "echo replies sent"): 1}
SHORT = ["set ip4-full-reassembly timeout 100 expire-walk-interval 10"]
AS_BEFORE = ["set ip4-full-reassembly default"]


def reassembly(name, packets, out=(), **more):
    return Case("ip4-local-full-reassembly", name, to_us(*packets), list(out), **more)


def too_long():
    """Fragments of a datagram that has its 65535 bytes without the options of its first fragment."""
    first, *later = cut(echo(data=bytes(65507), id=110), 1472)
    first = scapy.IP(bytes(first))
    data = bytes(first.payload)
    return [fragment(0, data, proto=1, dst="10.0.1.1", id=110, options=scapy.IPOption(b"\1\1\1\1")), *later]


#: Linux takes the outer tag off and would keep a frame that ends in it: this one ends in the inner one.
ENDS_IN_TAG = bytes(frame(scapy.Dot1AD(vlan=10) / scapy.Dot1Q(vlan=20) / udp("10.0.2.2")))[:20]
THREE_TAGS = frame(scapy.Dot1AD(vlan=10) / scapy.Dot1Q(vlan=20) / scapy.Dot1Q(vlan=30) / udp("10.0.2.2"))
TRUNK = [
    "create sub-interfaces e0 20 dot1ad 10 inner-dot1q 20 exact-match",
    "set interface state e0.20 up",
    "set interface ip address e0.20 10.0.5.1/24",
]
NO_TRUNK = ["delete sub-interface e0.20"]


def to_dhcp_client(message):
    return frame(udp("255.255.255.255", data=message, sport=67, dport=68), dst=EVERYBODY)


#: Of another transaction than any of the router's, and none at all.
DHCP = [
    (
        "DHCP message for another client",
        bytes(scapy.BOOTP(op=2, xid=1, chaddr=bytes(6)) / scapy.DHCP(options=[("message-type", "offer"), "end"])),
    ),
    ("malformed DHCP message", DATA),
]


#: A question that is answered when nothing of it is changed.
ASKING = arp(1, STRANGER, "10.0.1.9", "10.0.1.1")


def arp_reply(to, psrc, pdst):
    return scapy.Ether(src=E0, dst=to) / scapy.ARP(op=2, hwsrc=E0, psrc=psrc, hwdst=to, pdst=pdst)


def optional(options):
    """A packet with options that are no options to scapy."""
    return udp("10.0.2.2", options=scapy.IPOption(bytes.fromhex(options)))


def with_options(name, options, at):
    return Case(
        "ip4-options",
        name,
        on_e0(frame(optional(options))),
        [icmp_error(optional(options), 12, 0, ptr=at)],
        also={("ip4-icmp-error", "ICMP parameter problem sent"): 1},
    )


CASES = [
    # Ethernet.
    Case(
        "af-packet-input",
        "interface is down",
        on_e0(frame(udp("10.0.2.2"))),
        given=["set interface state e0 down"],
        undo=["set interface state e0 up"],
    ),
    Case("ethernet-input", "l3 mac mismatch", on_e0(frame(udp("10.0.2.2"), dst=STRANGER))),
    Case("ethernet-input", "unknown ethernet type", on_e0(frame(DATA, type=0x88CC))),
    Case("ethernet-input", "802.3 length beyond the frame", on_e0(of_length(47, bytes(46)))),
    Case("ethernet-input", "neither an 802.3 length nor an ethernet type", on_e0(of_length(1501, bytes(1490)))),
    Case("llc-input", "llc header truncated", on_e0(of_length(2, b"\x42" * 46))),
    Case("llc-input", "punted: llc spanning tree (sap 0x42)", on_e0(llc("424203"))),
    Case("llc-input", "punted: llc osi network layer (sap 0xfe)", on_e0(llc("fefe03"))),
    Case("llc-input", "punted: llc netbios (sap 0xf0)", on_e0(llc("f0f103"))),
    Case("llc-input", "punted: llc ipx (sap 0xe0)", on_e0(llc("e0e003"))),
    Case("llc-input", "punted: llc null sap (0x00)", on_e0(llc("0042af"))),
    Case("llc-input", "punted: unknown llc ssap/dsap", on_e0(llc("060603"))),
    Case("llc-input", "punted: llc control != 0x3", on_e0(llc("aaaa13"))),
    Case("snap-input", "snap header truncated", on_e0(llc("aaaa0300000008"))),
    Case("snap-input", "punted: snap ethertype (oui 00:00:00)", on_e0(llc("aaaa030000000800"))),
    Case("snap-input", "punted: snap cisco (oui 00:00:0c)", on_e0(llc("aaaa0300000c2000"))),
    Case("snap-input", "punted: snap appletalk (oui 08:00:07)", on_e0(llc("aaaa03080007809b"))),
    Case("snap-input", "punted: unknown oui/snap protocol", on_e0(llc("aaaa030102030405"))),
    # ARP.
    Case(
        "arp-reply",
        "ARP replies sent",
        on_e0(arp(1, H1, "10.0.1.2", "10.0.1.1", ether_src=H1)),
        [(0, scapy.Ether(src=E0, dst=H1) / scapy.ARP(op=2, hwsrc=E0, psrc="10.0.1.1", hwdst=H1, pdst="10.0.1.2"))],
    ),
    Case(
        "arp-reply", "ARP replies received", on_e0(arp(2, H1, "10.0.1.2", "10.0.1.1", dst=E0, hwdst=E0, ether_src=H1))
    ),
    Case(
        "arp-reply",
        "ARP announcements",
        on_e0(arp(1, STRANGER, "10.0.1.9", "10.0.1.9")),
        given=["set arp accept enable"],
        undo=["ip neighbor del e0 10.0.1.9", "set arp accept disable"],
    ),
    Case("arp-reply", "ARP probe or announcement dropped", on_e0(arp(1, STRANGER, "10.0.1.9", "10.0.1.9"))),
    Case("arp-reply", "ARP request for another address", on_e0(arp(1, STRANGER, "10.0.1.9", "10.0.1.8"))),
    Case(
        "arp-reply",
        "ARP request IP4 source address learned",
        on_e0(arp(1, STRANGER, "10.0.1.9", "10.0.1.1")),
        [(0, arp_reply(STRANGER, "10.0.1.1", "10.0.1.9"))],
        undo=["ip neighbor del e0 10.0.1.9"],
        also={("arp-reply", "ARP replies sent"): 1},
    ),
    Case(
        "arp-reply",
        "Proxy ARP replies sent",
        on_e0(arp(1, H1, "10.0.1.2", "10.0.2.77", ether_src=H1)),
        [(0, arp_reply(H1, "10.0.2.77", "10.0.1.2"))],
        given=["set arp proxy start 10.0.2.70 end 10.0.2.80", "set interface proxy-arp e0 enable"],
        undo=["set interface proxy-arp e0 disable", "set arp proxy del start 10.0.2.70 end 10.0.2.80"],
    ),
    Case("arp-reply", "ARP message truncated", on_e0(bytes(arp(1, H1, "10.0.1.2", "10.0.1.1"))[:41])),
    Case("arp-reply", "L2 type not ethernet", on_e0(changed(ASKING, 15, 6))),
    Case("arp-reply", "L3 type not IP4", on_e0(changed(ASKING, 16, 0x86))),
    Case("arp-reply", "ARP address lengths not 6 and 4", on_e0(changed(ASKING, 18, 8))),
    Case("arp-reply", "ARP opcode not request", on_e0(arp(3, STRANGER, "10.0.1.9", "10.0.1.1"))),
    Case(
        "arp-reply",
        "Interface is not IP enabled",
        on_e0(ASKING),
        given=["set interface ip address del e0 10.0.1.1/24"],
        undo=["set interface ip address e0 10.0.1.1/24"],
    ),
    Case("arp-reply", "IP4 source address not local to subnet", on_e0(arp(1, STRANGER, "10.9.9.9", "10.0.1.1"))),
    Case("arp-reply", "IP4 destination address not local to subnet", on_e0(arp(1, STRANGER, "10.0.1.9", "10.9.0.9"))),
    Case("arp-reply", "ARP sender address is no host's", on_e0(arp(1, STRANGER, "10.0.1.255", "10.0.1.1"))),
    Case("arp-reply", "ARP sender is a group address", on_e0(arp(1, EVERYBODY, "10.0.1.9", "10.0.1.1"))),
    Case("arp-reply", "ARP hw addr does not match L2 frame src addr", on_e0(arp(1, H1, "10.0.1.9", "10.0.1.1"))),
    Case(
        "arp-reply",
        "IP4 source address matches local interface",
        on_e0(arp(1, STRANGER, "10.0.1.1", "10.0.1.1")),
        [(0, arp(1, E0, "10.0.1.1", "10.0.1.1", ether_src=E0))],
        undo=["clear arp conflicts"],
    ),
    Case("arp-reply", "ARP message of ours came back", on_e0(arp(1, E0, "10.0.1.1", "10.0.1.9", ether_src=E0))),
    Case(
        "arp-reply",
        "ARP contradicts a static neighbour",
        on_e0(arp(2, STRANGER, "10.0.1.5", "10.0.1.1")),
        given=[f"ip neighbor static e0 10.0.1.5 {H1}"],
        undo=["ip neighbor del e0 10.0.1.5"],
    ),
    Case("arp-reply", "ARP reply not asked for", on_e0(arp(2, STRANGER, "10.0.1.9", "10.0.1.1"))),
    Case("arp-reply", "ARP reply to another address", on_e0(arp(2, STRANGER, "10.0.1.9", "10.0.1.8"))),
    Case(
        "arp-reply",
        "ARP replies limited by rate",
        on_e0(*[arp(1, H1, "10.0.1.2", "10.0.1.1", ether_src=H1)] * 2),
        [(0, arp_reply(H1, "10.0.1.1", "10.0.1.2"))],
        given=["set arp rate replies 1"],
        undo=["set arp rate default"],
        also={("arp-reply", "ARP replies sent"): 1},
    ),
    Case(
        "arp-reply",
        "ARP learning limited by rate",
        on_e0(arp(1, STRANGER, "10.0.1.8", "10.0.1.8"), arp(1, STRANGER, "10.0.1.9", "10.0.1.9")),
        given=["set arp accept enable", "set arp rate learning 1"],
        undo=["ip neighbor del e0 10.0.1.8", "set arp accept disable", "set arp rate default"],
        also={("arp-reply", "ARP announcements"): 1},
    ),
    Case(
        "arp-reply",
        "asker answered, not learned",
        on_e0(arp(1, STRANGER, "10.0.1.5", "10.0.1.1")),
        [(0, arp_reply(STRANGER, "10.0.1.1", "10.0.1.5"))],
        given=[f"ip neighbor static e0 10.0.1.5 {H1}"],
        undo=["ip neighbor del e0 10.0.1.5"],
        also={("arp-reply", "ARP replies sent"): 1},
    ),
    Case(
        "ip4-arp",
        "ARP requests throttled",
        on_e0(frame(udp("10.0.2.99")), frame(udp("10.0.2.98"))),
        [ASKED, forwarded(udp("10.0.2.99"), dst=STRANGER)],
        then=[ANSWERED],
        given=["set arp rate requests 1"],
        undo=["ip neighbor del e1 10.0.2.99", "set arp rate default"],
        also={("arp-reply", "ARP replies received"): 1},
    ),
    # VLAN.
    Case("ethernet-input", "unknown vlan", on_e0(frame(scapy.Dot1Q(vlan=100) / udp("10.0.2.2")))),
    Case(
        "ethernet-input",
        "subinterface down",
        on_e0(frame(scapy.Dot1Q(vlan=100) / udp("10.0.2.2"))),
        given=["create sub-interfaces e0 100"],
        undo=["delete sub-interface e0.100"],
    ),
    Case("ethernet-input", "more than two vlan tags", on_e0(THREE_TAGS)),
    Case("ethernet-input", "frame ends within a vlan tag", on_e0(ENDS_IN_TAG)),
    # Where there are sub-interfaces, tags are looked at by other code.
    *[
        Case("ethernet-input", name, on_e0(made), given=TRUNK, undo=NO_TRUNK)
        for name, made in (
            ("unknown vlan", frame(scapy.Dot1Q(vlan=100) / udp("10.0.2.2"))),
            ("unknown vlan", frame(scapy.Dot1AD(vlan=10) / udp("10.0.2.2"))),
            ("unknown vlan", frame(scapy.Dot1AD(vlan=10) / scapy.Dot1Q(vlan=21) / udp("10.0.2.2"))),
            ("unknown vlan", frame(scapy.Dot1Q(vlan=10) / scapy.Dot1Q(vlan=20) / udp("10.0.2.2"))),
            ("more than two vlan tags", THREE_TAGS),
            ("frame ends within a vlan tag", ENDS_IN_TAG),
            ("l3 mac mismatch", frame(scapy.Dot1AD(vlan=10) / scapy.Dot1Q(vlan=20) / udp("10.0.2.2"), dst=STRANGER)),
        )
    ],
    # IPv4.
    Case(
        "ip4-input",
        "ip4 not enabled",
        on_e0(frame(udp("10.0.2.2"))),
        given=["set interface ip address del e0 10.0.1.1/24"],
        undo=["set interface ip address e0 10.0.1.1/24"],
    ),
    Case("ip4-input", "ip4 length < 20 bytes", on_e0(bytes(frame(udp("10.0.2.2")))[:33])),
    Case("ip4-input", "ip4 version != 4", on_e0(spoilt(udp("10.0.2.2"), version=5))),
    Case("ip4-input", "ip4 header length < 20 bytes", on_e0(spoilt(udp("10.0.2.2"), ihl=4))),
    Case(
        "ip4-input",
        "ip4 header longer than the packet",
        on_e0(changed(frame(ip("10.0.2.2", proto=253) / b"few"), 14, 0x4F)),
    ),
    Case("ip4-input", "ip4 total length < header length", on_e0(spoilt(udp("10.0.2.2"), len=19))),
    Case("ip4-input", "ip4 length > l2 length", on_e0(spoilt(udp("10.0.2.2"), len=45))),
    Case("ip4-input", "bad ip4 checksum", on_e0(changed(frame(udp("10.0.2.2", id=0)), 18, 1))),
    Case(
        "ip4-input",
        "ip4 fragment ends beyond 65535 bytes",
        on_e0(frame(fragment(0x1FFF, bytes(8), more=False, proto=1))),
    ),
    Case("ip4-input", "ip4 fragment without data", on_e0(frame(fragment(0, b"")))),
    Case("ip4-input", "ip4 fragment length is no multiple of 8", on_e0(frame(fragment(4, bytes(20))))),
    Case("ip4-input", "ip4 fragment offset == 1", on_e0(frame(fragment(1, bytes(24), more=False, proto=6)))),
    Case("ip4-input", "tcp header split over fragments", on_e0(frame(fragment(0, bytes(8), proto=6)))),
    Case("ip4-input", "source martian", on_e0(frame(udp("10.0.2.2", src="127.0.0.1")))),
    Case("ip4-input", "destination martian", on_e0(frame(udp("127.0.0.1")))),
    Case("ip4-input", "multicast not routed", on_e0(frame(udp("224.1.2.3")))),
    Case("ip4-lookup", "blackholed packets", on_e0(frame(udp("20.1.2.3")))),
    Case("ip4-lookup", "directed broadcast not sent on", on_e0(frame(udp("10.0.2.255")))),
    Case(
        "ip4-load-balance",
        "blackholed packets",
        on_e0(frame(udp("24.1.2.3"))),
        # Whichever of the two a flow takes.
        given=["ip route add 25.0.0.0/8 via drop", "ip route add 24.0.0.0/8 via drop via 25.0.0.1"],
        undo=["ip route del 24.0.0.0/8", "ip route del 25.0.0.0/8"],
    ),
    Case(
        "lookup-ip4-dst",
        "blackholed packets",
        on_e0(frame(udp("24.1.2.3"))),
        given=[
            "ip table add 9",
            "ip route add 24.0.0.0/8 via ip4-lookup-in-table 9",
            "ip route add table 9 24.0.0.0/8 via drop",
        ],
        undo=["ip route del 24.0.0.0/8", "ip table del 9"],
    ),
    Case(
        "lookup-ip4-dst",
        "too many tables in a row",
        on_e0(frame(udp("24.1.2.3"))),
        given=[
            "ip table add 9",
            "ip route add 24.0.0.0/8 via ip4-lookup-in-table 9",
            "ip route add table 9 24.0.0.0/8 via ip4-lookup-in-table 0",
        ],
        undo=["ip route del 24.0.0.0/8", "ip route del table 9 24.0.0.0/8", "ip table del 9"],
    ),
    Case(
        "ip4-route-counters",
        "blackholed packets",
        on_e0(frame(udp("20.1.2.3"))),
        given=["set ip route counters 20.0.0.0/8 enable"],
        undo=["set ip route counters 20.0.0.0/8 disable"],
    ),
    Case(
        "ip4-route-counters",
        "directed broadcast not sent on",
        on_e0(frame(udp("10.0.2.255"))),
        given=["set ip route counters 10.0.2.255/32 enable"],
        undo=["set ip route counters 10.0.2.255/32 disable"],
    ),
    Case("ip4-punt-redirect", "punted, but no host interface takes it", on_e0(frame(udp("21.1.2.3")))),
    Case(
        "ip4-punt-redirect",
        "punted packet came back from the host",
        on_e0(frame(udp("21.1.2.3"))),
        given=["ip punt redirect add rx all via 10.0.1.2 e0"],
        undo=["ip punt redirect del rx all"],
    ),
    Case(
        "ip4-punt-redirect",
        "punted packets limited by rate",
        on_e0(*[frame(udp("10.0.1.1"))] * 2),
        [punted(udp("10.0.1.1"))],
        given=["ip punt redirect add rx all via 10.0.2.2 e1", "set ip punt rate 1"],
        undo=["ip punt redirect del rx all", "set ip punt rate default"],
    ),
    Case(
        "ip4-rx-urpf",
        "uRPF drop (strict)",
        on_e0(frame(udp("10.0.2.2", src="10.0.2.7"))),
        given=["set urpf ip4 strict e0"],
        undo=["set urpf ip4 off e0"],
    ),
    Case(
        "ip4-rx-urpf",
        "uRPF drop (loose)",
        on_e0(frame(udp("10.0.2.2", src="77.0.1.7"))),
        given=["set urpf ip4 loose e0"],
        undo=["set urpf ip4 off e0"],
    ),
    Case("ip4-local", "ip4 spoofed local-address packet drops", on_e0(frame(echo(src="10.0.1.1")))),
    Case("ip4-local", "ip4 source lookup miss", on_e0(frame(echo(src="77.0.1.7")))),
    Case(
        "ip4-rewrite",
        "ip4 ttl 0 received",
        on_e0(frame(udp("10.0.2.2", ttl=0))),
        [icmp_error(udp("10.0.2.2", ttl=0), 11, 0)],
        also={("ip4-icmp-error", "ICMP time exceeded sent"): 1},
    ),
    Case(
        "ip4-rewrite",
        "ip4 MTU exceeded and DF set",
        on_e0(frame(DF)),
        [icmp_error(DF, 3, 4, nexthopmtu=600)],
        given=["set interface mtu packet 600 e1"],
        undo=["set interface mtu packet default e1"],
        also={("ip4-icmp-error", "ICMP fragmentation needed sent"): 1},
    ),
    Case("ip4-rewrite", "group-addressed frame is not forwarded", on_e0(frame(udp("10.0.2.2"), dst=EVERYBODY))),
    Case(
        "ip4-frag",
        "packet fragmented",
        on_e0(frame(LONG)),
        list(fragments_of(LONG, 600)),
        given=["set interface mtu packet 600 e1"],
        undo=["set interface mtu packet default e1"],
        also={("ip4-frag", "number of sent fragments"): 2},
    ),
    # More segments than anybody needs, each too long for the way out.
    Case(
        "ip4-frag",
        "malformed packet",
        on_e0(vnet(frame(ip("10.0.2.2") / scapy.TCP(flags="A") / bytes(62000)), 1, 1, 54, 30, 34, 16)),
        vnet=True,
        given=["set interface mtu packet 68 e1"],
        undo=["set interface mtu packet default e1"],
    ),
    # Fragments to the router itself.
    reassembly(
        "successful reassemblies", cut(echo(id=101), 16), REPLIED, also={("ip4-icmp-input", "echo replies sent"): 1}
    ),
    reassembly("duplicate fragments", [cut(echo(id=102), 16)[n] for n in (1, 1, 0)], REPLIED, also=ECHOED),
    reassembly("overlapping fragments", [part(103, 0, 2), part(103, 1, 3)]),
    reassembly("overlapping fragments", [part(104, 1, 3), part(104, 1, 3, more=False)]),
    reassembly("last fragments disagree", [part(105, 4, 5, more=False), part(105, 6, 7, more=False)]),
    reassembly("last fragments disagree", [part(106, 4, 5, more=False), part(106, 6, 7)]),
    reassembly("fragments disagree on congestion", [part(131, 0, 1), part(131, 1, 2, tos=3)]),
    reassembly(
        "fragment of a discarded datagram",
        [part(107, 0, 2), part(107, 1, 3), part(107, 3, 4)],
        also={("ip4-local-full-reassembly", "overlapping fragments"): 1},
    ),
    reassembly(
        "fragment chain too long",
        [part(108, 0, 1), part(108, 2, 3), part(108, 4, 5)],
        given=["set ip4-full-reassembly max-reassembly-length 2"],
        undo=AS_BEFORE,
    ),
    reassembly("reassembled datagram beyond 65535 bytes", too_long()),
    Case(
        "ip4-local-full-reassembly",
        "malformed packets",
        on_e0(vnet(frame(fragment(0, bytes(24), dst="10.0.1.1", id=111)), 1, 0, 0, 0, 34, 6)),
        vnet=True,
    ),
    # The newer one is completed, so that none is left.
    reassembly(
        "drops due to reassemblies limit of one source",
        [part(112, 0, 1), *cut(echo(id=113), 16)],
        REPLIED,
        given=["set ip4-full-reassembly max-per-source 1"],
        undo=AS_BEFORE,
        also=ECHOED,
    ),
    reassembly(
        "drops due to concurrent reassemblies limit",
        [part(114, 0, 1), *cut(echo(id=115), 16)],
        REPLIED,
        given=["set ip4-full-reassembly max-reassemblies 1"],
        undo=AS_BEFORE,
        also=ECHOED,
    ),
    reassembly("fragments dropped due to reassembly timeout", [part(116, 1, 2)], given=SHORT, undo=AS_BEFORE),
    reassembly(
        "reassembly timeout, sender told",
        [part(117, 0, 60)],
        [icmp_error(part(117, 0, 60), 11, 1)],
        given=SHORT,
        undo=AS_BEFORE,
        also={("ip4-icmp-error", "ICMP reassembly time exceeded sent"): 1},
    ),
    # Options, each fault with the place that the sender is told.
    *[
        with_options(name, options, at)
        for name, options, at in (
            ("ip4 option without a length", "01010107", 23),
            ("ip4 option length too small", "01630100", 22),
            ("ip4 option longer than the header", "01010707", 23),
            ("ip4 option pointer too small", "0707030000000000", 22),
            ("ip4 option has no room for a whole entry", "0707050000000000", 22),
            ("ip4 option appears twice", "0703040703040000", 23),
            ("ip4 timestamp overflow", "440405f0", 23),
        )
    ],
    Case(
        "ip4-options",
        "ip4 source route refused",
        on_e0(frame(optional("830704000000" + "0000"))),
        [icmp_error(optional("8307040000000000"), 3, 5)],
        also={("ip4-icmp-error", "ICMP source route failed sent"): 1},
    ),
    # Of packets that wait for one neighbour 32 may; they go on when it answers.
    Case(
        "ip4-arp",
        "hold queue full",
        on_e0(*[frame(udp("25.1.2.3"))] * 33),
        [ASKED, *[forwarded(udp("25.1.2.3"), dst=STRANGER)] * 32],
        then=[ANSWERED],
        given=["ip route add 25.0.0.0/8 via 10.0.2.99"],
        undo=["ip route del 25.0.0.0/8", "ip neighbor del e1 10.0.2.99"],
        also={("arp-reply", "ARP replies received"): 1},
    ),
    # ICMP.
    Case("ip4-icmp-input", "echo replies sent", on_e0(frame(echo())), REPLIED),
    Case(
        "ip4-icmp-input",
        "ICMP message shorter than its header",
        on_e0(frame(ip("10.0.1.1", proto=1) / bytes(echo())[20:27])),
    ),
    Case("ip4-icmp-input", "bad ICMP checksum", on_e0(changed(frame(echo()), 45, 0))),
    Case(
        "ip4-punt-redirect",
        "ICMP type not handled",
        on_e0(frame(ip("10.0.1.1") / scapy.ICMP(type=13, ts_ori=0, ts_rx=0, ts_tx=0))),
    ),
    Case("ip4-icmp-input", "ICMP echo to a group address ignored", on_e0(frame(echo(), dst=EVERYBODY))),
    Case(
        "ip4-icmp-input",
        "packet of ours came back to us",
        on_e0(frame(udp("99.9.9.9", src="10.0.1.1"))),
        also={("ip4-icmp-error", "ICMP net unreachable sent"): 1},
    ),
    Case("ip4-icmp-error", "ICMP time exceeded sent", on_e0(frame(EXPIRED)), [icmp_error(EXPIRED, 11, 0)]),
    Case(
        "ip4-icmp-error",
        "ICMP reassembly time exceeded sent",
        to_us(part(118, 99, 101), part(118, 0, 99)),
        [icmp_error(part(118, 0, 99), 11, 1)],
        given=SHORT,
        undo=AS_BEFORE,
        also={("ip4-local-full-reassembly", "reassembly timeout, sender told"): 1},
    ),
    Case("ip4-icmp-error", "ICMP net unreachable sent", on_e0(frame(LOST)), [icmp_error(LOST, 3, 0)]),
    Case(
        "ip4-icmp-error",
        "ICMP host unreachable sent",
        on_e0(frame(udp("22.1.2.3"))),
        [icmp_error(udp("22.1.2.3"), 3, 1)],
    ),
    Case(
        "ip4-icmp-error",
        "ICMP admin prohibited sent",
        on_e0(frame(udp("27.1.2.3"))),
        [icmp_error(udp("27.1.2.3"), 3, 13)],
    ),
    Case(
        "ip4-redirect",
        "ICMP redirect sent",
        on_e0(frame(udp("60.1.2.3"))),
        [icmp_error(udp("60.1.2.3"), 5, 1, gw="10.0.1.3"), onward(udp("60.1.2.3"))],
        given=REDIRECTING,
        undo=NOT_REDIRECTING,
    ),
    Case(
        "ip4-redirect",
        "ICMP redirects limited by rate",
        on_e0(frame(udp("60.1.2.4")), frame(udp("60.1.2.4"))),
        [icmp_error(udp("60.1.2.4"), 5, 1, gw="10.0.1.3"), onward(udp("60.1.2.4")), onward(udp("60.1.2.4"))],
        given=REDIRECTING,
        undo=NOT_REDIRECTING,
        also={("ip4-redirect", "ICMP redirect sent"): 1},
    ),
    Case(
        "ip4-icmp-error",
        "ICMP protocol unreachable sent",
        on_e0(frame(ip("10.0.1.1", proto=253) / DATA)),
        [icmp_error(ip("10.0.1.1", proto=253) / DATA, 3, 2)],
    ),
    Case(
        "ip4-icmp-error",
        "ICMP port unreachable sent",
        on_e0(frame(udp("10.0.1.1"))),
        [icmp_error(udp("10.0.1.1"), 3, 3)],
    ),
    Case(
        "ip4-icmp-error",
        "ICMP fragmentation needed sent",
        on_e0(frame(DF)),
        [icmp_error(DF, 3, 4, nexthopmtu=600)],
        given=["set interface mtu packet 600 e1"],
        undo=["set interface mtu packet default e1"],
        also={("ip4-rewrite", "ip4 MTU exceeded and DF set"): 1},
    ),
    Case(
        "ip4-icmp-error",
        "no ICMP error about an ICMP error",
        on_e0(frame(ip("10.0.2.2", ttl=1) / scapy.ICMP(type=11, code=0) / ABOUT)),
    ),
    Case(
        "ip4-icmp-error",
        "no ICMP error about a later fragment",
        on_e0(frame(ip("10.0.2.2", ttl=1, frag=10, proto=17) / DATA)),
    ),
    Case("ip4-icmp-error", "no ICMP error about a group-addressed packet", on_e0(frame(LOST, dst=EVERYBODY))),
    Case(
        "ip4-icmp-error",
        "no ICMP error about a packet of ours",
        on_e0(frame(udp("99.9.9.9", src="99.1.1.1"))),
        also={("ip4-icmp-error", "ICMP net unreachable sent"): 1},
    ),
    Case(
        "ip4-icmp-error",
        "no ICMP error to a source that is not one host",
        on_e0(frame(udp("99.9.9.9", src="10.0.1.255"))),
    ),
    Case(
        "ip4-icmp-error",
        "ICMP errors limited by rate",
        on_e0(*[frame(EXPIRED)] * 2),
        [icmp_error(EXPIRED, 11, 0)],
        given=["set ip icmp error-rate 1 burst 1"],
        undo=["set ip icmp error-rate default"],
        also={("ip4-icmp-error", "ICMP time exceeded sent"): 1},
    ),
    # A request of the router's own.
    Case(
        "ip4-rewrite",
        "loopback address would leave the router",
        [],
        asks="ping 127.0.0.1 repeat 1",
        also=ASKS,
        given=["ip route add 127.0.0.0/8 via 10.0.2.2"],
        undo=["ip route del 127.0.0.0/8"],
    ),
    # UDP and TCP.
    Case("ip4-udp-lookup", "udp header truncated", on_e0(frame(ip("10.0.1.1", proto=17) / bytes(7)))),
    Case(
        "ip4-udp-lookup",
        "inconsistent udp/ip lengths",
        on_e0(frame(ip("10.0.1.1") / scapy.UDP(sport=1, dport=2, len=7, chksum=0) / DATA)),
    ),
    Case(
        "ip4-udp-lookup",
        "bad udp checksum",
        on_e0(frame(ip("10.0.1.1") / scapy.UDP(sport=1, dport=2, chksum=1) / DATA)),
    ),
    *[
        Case(
            "ip4-dhcp-client",
            name,
            on_e0(to_dhcp_client(message)),
            given=["set dhcp client intfc e0"],
            undo=["set dhcp client del intfc e0"],
        )
        for name, message in DHCP
    ],
    Case("tcp4-reset", "TCP resets sent", on_e0(frame(tcp())), RESET),
    Case(
        "tcp4-reset",
        "TCP resets limited by rate",
        on_e0(*[frame(tcp())] * 2),
        RESET,
        given=["set ip icmp error-rate 1 burst 1"],
        undo=["set ip icmp error-rate default"],
        also={("tcp4-reset", "TCP resets sent"): 1},
    ),
    Case("tcp4-reset", "inconsistent ip/tcp lengths", on_e0(frame(ip("10.0.1.1", proto=6) / bytes(19)))),
    Case("tcp4-reset", "bad tcp checksum", on_e0(frame(tcp(chksum=1)))),
    Case("tcp4-reset", "no TCP reset about a reset", on_e0(frame(tcp("R")))),
    Case("tcp4-reset", "no TCP reset about a group-addressed segment", on_e0(frame(tcp(), dst=EVERYBODY))),
    Case(
        "INTERFACE-tx",
        "packet is longer than the device's mtu",
        on_e0(frame(udp("10.0.2.2", data=bytes(1200)))),
        given=["link set to-e1 mtu 1000"],
        undo=["link set to-e1 mtu 1500"],
    ),
    Case(
        "INTERFACE-tx",
        "nothing is behind a loopback interface",
        on_e0(frame(udp("10.0.4.2"))),
        given=[
            "create loopback interface",
            "set interface ip address loop0 10.0.4.1/24",
            "set interface state loop0 up",
        ],
        undo=["delete loopback interface intfc loop0"],
    ),
    Case(
        "INTERFACE-tx",
        "device dropped the packet",
        on_e0(frame(udp("10.0.2.2"))),
        given=["tc qdisc add dev to-e1 root pfifo limit 0"],
        undo=["tc qdisc del dev to-e1 root"],
    ),
    # A device whose link is down, an interface that is: only copies go there.
    Case(
        "INTERFACE-tx",
        "device refused the packet",
        on_e0(frame(udp("10.0.2.2"))),
        [forwarded(udp("10.0.2.2"))],
        given=[
            "link add gone0 type veth peer name gone1",
            "create host-interface gone0 name gone0",
            "set interface state gone0 up",
            "link set gone0 down",
            "set interface span e0 destination gone0 rx",
        ],
        undo=["delete host-interface name gone0", "link del gone0"],
        also={("span-input", "packets mirrored"): 1},
    ),
    Case(
        "INTERFACE-output",
        "interface is down",
        on_e0(frame(udp("10.0.2.2"))),
        [forwarded(udp("10.0.2.2"))],
        given=["create loopback interface", "set interface span e0 destination loop0 rx"],
        undo=["delete loopback interface intfc loop0"],
        also={("span-input", "packets mirrored"): 1},
    ),
    # Copies for others to look at.
    Case(
        "span-input",
        "packets mirrored",
        on_e0(frame(udp("10.0.3.2"))),
        [(1, frame(udp("10.0.3.2")))],
        given=["set interface span e0 destination e1 rx"],
        undo=["set interface span e0 disable"],
    ),
    Case(
        "span-output",
        "packets mirrored",
        on_e0(frame(udp("10.0.2.2"))),
        [forwarded(udp("10.0.2.2")), (0, forwarded(udp("10.0.2.2"))[1])],
        given=["set interface span e1 destination e0 tx"],
        undo=["set interface span e1 disable"],
    ),
    # What an interface finishes when its device does not.
    Case("INTERFACE-output", "checksums finished", on_e0(vnet(frame(udp("10.0.3.2")), 1, 0, 0, 0, 34, 6)), vnet=True),
    Case(
        "INTERFACE-output",
        "packets segmented",
        on_e0(vnet(frame(ip("10.0.3.2") / scapy.TCP(flags="A") / bytes(1000)), 1, 1, 54, 500, 34, 16)),
        vnet=True,
    ),
    Case(
        "INTERFACE-output",
        "offload request makes no sense",
        on_e0(vnet(frame(ip("10.0.3.2") / scapy.TCP(flags="A") / bytes(5000)), 1, 1, 54, 1, 34, 16)),
        vnet=True,
    ),
]


def same(got, expected):
    """Whether frames are equal to the byte; of a packet that the router made, but for its
    identification, which is its own choice (RFC 6864)."""
    got, expected = bytes(got), bytearray(bytes(expected))
    made_here = expected[12:14] == b"\x08\x00" and len(got) == len(expected) and expected[14 + 9] == 1
    if made_here:
        theirs = scapy.Ether(bytes(expected))
        theirs[scapy.IP].id = scapy.Ether(got)[scapy.IP].id
        del theirs[scapy.IP].chksum
        expected = bytes(theirs)
    elif expected[12:14] == b"\x86\xdd" and expected[14 + 6] == 44:
        # RFC 7739.
        expected[14 + 44 : 14 + 48] = got[14 + 44 : 14 + 48]
    elif expected[12:14] == b"\x88\x47" and len(got) == len(expected):
        # The same behind labels.
        at = 14 + 4 * (1 + next(number for number in range(9) if expected[16 + 4 * number] & 1))
        if len(expected) >= at + 20 and expected[at] == 0x45 and expected[at + 9] == 1:
            expected[at + 4 : at + 6], expected[at + 10 : at + 12] = got[at + 4 : at + 6], b"\0\0"
            expected[at + 10 : at + 12] = scapy.checksum(bytes(expected[at : at + 20])).to_bytes(2, "big")
    return got == bytes(expected)


class Bench:
    """The router and its two wires, for all cases."""

    def __init__(self, lab):
        self.router = lab.router(COMMANDS)
        self.hosts = [lab.host("h1"), lab.host("h2")]
        self.wires, self.offloading, self.fenced = [], [], 0
        fence = lab.host("fence")
        for number, mac in enumerate(FENCES):
            self.join(fence, f"f{number}", f"eth{number}", mac, f"10.0.{8 + number}", H1)
        self.fences = [fence.frames("eth0"), fence.frames("eth1")]
        for number, (host, mac, ours) in enumerate(((self.hosts[0], E0, H1), (self.hosts[1], E1, H2))):
            self.join(host, f"e{number}", "eth0", mac, f"10.0.{number + 1}", ours)
            self.wires.append(host.frames(timeout=0))
            self.offloading.append(self.socket_with_vnet_header(lab, host))
        self.fence()

    def join(self, host, name, interface, mac, network, neighbour):
        """A wire from a host, whose kernel takes no part, to a new interface of the router."""
        self.router.attach(host, name, "af_packet", None, interface)
        host.ip("link", "set", interface, "arp", "off")
        for line in (
            f"set interface mac address {name} {mac}",
            f"set interface ip address {name} {network}.1/24",
            f"set interface state {name} up",
            f"ip neighbor {name} {network}.2 {neighbour}",
        ):
            self.router.cli(line)

    @staticmethod
    def socket_with_vnet_header(lab, host):
        """A socket that sends frames behind a virtio-net header."""
        packet_vnet_hdr = 15
        with host.inside():
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            lab.stack.callback(opened.close)
            opened.setsockopt(263, packet_vnet_hdr, 1)
            opened.bind(("eth0", 0))
        return opened

    def give(self, commands):
        """Gives the router commands, and its host those that begin with `link` or `tc`. What control then sends
        on its own account, such as announcements, is out at the end."""
        for line in commands:
            if line.startswith("link "):
                self.router.host.ip(*line.split())
            elif line.startswith("tc "):
                self.router.host.run(*line.split())
            else:
                self.router.cli(line)
        self.fence()

    def setting(self):
        """What cases change of the router."""
        return self.router.cli("show running-config"), sorted(self.router.neighbours())

    def moved(self, before):
        """By how much which counters have moved, nodes of interfaces by their common name."""
        found = {}
        for (node, name), count in self.counts().items():
            if count != before.get((node, name), 0):
                found[(of_interface(node), name)] = count - before.get((node, name), 0)
        return found

    def counts(self):
        counts = {}
        for error in self.router.cli_json("show errors")["errors"]:
            key = (error["node"], error["reason"])
            counts[key] = counts.get(key, 0) + error["count"]
        return counts

    def arrivals(self, port):
        """Frames that have come by a wire."""
        found, outgoing = [], 4
        while True:
            try:
                got, sender = self.wires[port].recvfrom(1 << 17, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            if sender[2] != outgoing:
                found.append(got)

    def fence(self):
        """A frame through the router and one back, by wires of their own: what was sent before has come out
        when they have. Gives what has come by each wire."""
        for number, (wire, there) in enumerate(((self.fences[0], "10.0.9.2"), (self.fences[1], "10.0.8.2"))):
            self.fenced += 1
            mark = f"fence {self.fenced}".encode()
            wire.send(bytes(frame(udp(there, data=mark, src=f"10.0.{8 + number}.2"), dst=FENCES[number])))
            other = self.fences[1 - number]
            while not other.recv(2048).endswith(mark):
                pass
        return [self.arrivals(0), self.arrivals(1)]

    def gather(self, came, wanted, but=()):
        """Waits until as many frames have come by each wire as are wanted, `but` these not counted."""
        deadline = time.monotonic() + 20
        counted = lambda port: sum(frame not in but for frame in came[port])
        while any(counted(port) < count for port, count in wanted.items()) and time.monotonic() < deadline:
            for port in (0, 1):
                came[port] += self.arrivals(port)
            time.sleep(0.001)


@contextlib.contextmanager
def made_bench(commands=()):
    lab = Lab()
    try:
        made = Bench(lab)
        made.give(commands)
        made.is_set = made.setting()
        yield made
        lab.finish()
    finally:
        lab.tear_down()


@pytest.fixture(scope="module")
def bench(privileges):
    with made_bench() as made:
        yield made


def program_names(sections=SECTIONS):
    """Every error of the program, by node and name, of these parts."""
    told = json.loads(run(QUIVER, "generate", "errors-json").stdout)
    return {(error["node"], error["reason"]) for error in told if error["section"] in sections}


def of_interface(node):
    """The name under which the node of an interface is listed."""
    for name in ("e0", "e1", "pg0", "loop0", "gone0"):
        for part in ("output", "tx"):
            if node == f"{name}-{part}":
                return f"INTERFACE-{part}"
    return node


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.node}: {case.name}")
def test_a_packet_moves_its_counter_by_one_and_no_other(bench, case):
    try:
        provoke(bench, case)
    finally:
        # Others are not to fail with it.
        bench.give(case.undo)
    before, bench.is_set = bench.is_set, bench.setting()
    assert bench.is_set == before, "the case puts back what it changed"


def provoke(bench, case):
    bench.give(case.given)
    before = bench.counts()
    sockets = bench.offloading if case.vnet else bench.wires
    for port, made in case.send:
        sockets[port].send(bytes(made))
    if case.asks:
        bench.router.cli(case.asks)
    expected = dict(case.also) | {(case.node, case.name): 1}

    wait_until(lambda: bench.moved(before), f"a counter moves, of {expected}")
    came = bench.fence()
    for port, made in case.then:
        # What it answers came from control, in its own time.
        bench.gather(came, {port: 1})
        bench.wires[port].send(bytes(made))
    wanted = {port: sum(1 for to, _ in case.out if to == port) for port in (0, 1)}
    bench.gather(came, wanted)
    came = [earlier + later for earlier, later in zip(came, bench.fence(), strict=True)]
    assert bench.moved(before) == expected
    for port in (0, 1):
        wanted = [bytes(made) for to, made in case.out if to == port]
        # In any order: what the router says of a packet may overtake it.
        for want in wanted:
            found = next((got for got in came[port] if same(got, want)), None)
            assert found is not None, f"on wire {port}\nwanted {want.hex()}\ncame   {[got.hex() for got in came[port]]}"
            came[port].remove(found)
        # The groups of addresses that a case has put back are reported once more, at a time of chance.
        came[port] = [got for got in came[port] if not got.startswith(LISTENERS_MAC)]
        assert not came[port], f"on wire {port}, too much: {[got.hex() for got in came[port]]}"


def test_packets_of_one_source_do_not_fill_the_places_of_all(bench):
    """Of one source 256 may wait, 32 of them for each of 8 neighbours; they go on when these answer."""
    before = bench.counts()
    hosts = [f"10.0.2.{number}" for number in range(100, 108)]
    for address in [*hosts, "10.0.2.108"]:
        for _ in range(32 if address in hosts else 1):
            bench.wires[0].send(bytes(frame(udp(address))))
    wait_until(lambda: bench.moved(before), "there is one too many")
    expected = {("ip4-arp", "too many packets wait for neighbours"): 1}
    assert bench.moved(before) == expected
    came = bench.fence()
    bench.gather(came, {1: len(hosts)})
    # On a busy machine a second passes, and they are asked for again.
    questions = {bytes(arp(1, E1, "10.0.2.1", address, ether_src=E1)) for address in hosts}
    assert set(came[1]) == questions
    for address in hosts:
        bench.wires[1].send(bytes(arp(2, STRANGER, address, "10.0.2.1", dst=E1, hwdst=E1)))
    came = bench.fence()
    bench.gather(came, {1: 32 * len(hosts)}, but=questions)
    onward = [bytes(forwarded(udp(address), dst=STRANGER)[1]) for address in hosts for _ in range(32)]
    assert sorted(sent for sent in came[1] if sent not in questions) == sorted(onward) and not came[0]
    assert bench.moved(before) == expected | {("arp-reply", "ARP replies received"): len(hosts)}
    bench.give([f"ip neighbor del e1 {address}" for address in hosts])


def test_a_silent_neighbour_is_not_asked_for_again_and_few_are_told(bench):
    """Of a hundred packets a second the senders are told that their neighbour does not answer."""
    bench.give(["set ip icmp error-rate 100000 burst 1000"])
    before, number, packet = bench.counts(), 300, udp("10.0.2.96")
    told = ("ip4-icmp-error", "ICMP host unreachable sent")
    for _ in range(2):
        # The second finds a neighbour that is known to be silent.
        bench.wires[0].send(bytes(frame(packet)))
        wait_until(lambda: bench.moved(before), "the neighbour is given up", seconds=10)
        assert bench.moved(before) == {told: 1}
        before = bench.counts()
    came = bench.fence()
    question = bytes(arp(1, E1, "10.0.2.1", "10.0.2.96", ether_src=E1))
    assert came[1] and set(came[1]) == {question}, "it was asked for, and nothing else"
    # The router's own 'ping' is told in another way.
    before = bench.counts()
    assert "Statistics: 1 sent, 0 received" in bench.router.cli("ping 10.0.2.96 repeat 1")
    assert bench.moved(before) == ASKS | {("ip4-icmp-error", "echo requests of this router that were not forwarded"): 1}
    assert bench.fence() == [[], []]
    before = bench.counts()
    for _ in range(number):
        bench.wires[0].send(bytes(frame(packet)))
    wait_until(lambda: sum(bench.moved(before).values()) == number, "all are counted")
    moved = bench.moved(before)
    assert set(moved) == {told, ("ip4-arp", "neighbour did not answer lately")} and moved[told] > 90
    later = bench.fence()
    _, expected = icmp_error(packet, 3, 1)
    answers = came[0] + later[0]
    assert len(answers) == 2 + moved[told] and all(same(answer, expected) for answer in answers)
    assert not later[1]
    bench.give(["ip neighbor del e1 10.0.2.96", "set ip icmp error-rate default"])


def test_an_answer_to_a_ping_of_the_router_is_counted(bench):
    before = bench.counts()
    asking = threading.Thread(target=bench.router.cli, args=["ping 10.0.1.2 repeat 1 size 16"])
    asking.start()
    came = [[], []]
    bench.gather(came, {0: 1})
    request = scapy.Ether(came[0][0])
    message = scapy.ICMP(type=8, id=request[scapy.ICMP].id, seq=1) / bytes(request[scapy.ICMP].payload)
    wanted = scapy.IP(src="10.0.1.1", dst="10.0.1.2", ttl=64, id=0) / message
    assert len(request[scapy.ICMP].payload) == 16
    assert same(came[0][0], scapy.Ether(src=E0, dst=H1) / wanted)
    message.type = 0
    bench.wires[0].send(bytes(frame(ip("10.0.1.1") / message)))
    asking.join(timeout=10)
    assert bench.moved(before) == ASKS | {("ip4-icmp-input", "ICMP answers to our requests"): 1}
    assert bench.fence() == [[], []]


def test_every_name_has_a_packet_or_a_reason(privileges):
    check_names(program_names(), CASES, IN_OTHER_TESTS, set(NOT_FROM_OUTSIDE))


def check_names(names, cases, in_other_tests, excused):
    with_others = {key for case in cases for key in case.also}
    cases = {(case.node, case.name) for case in cases} | in_other_tests

    def alike(node, name):
        return ((node, name), (node, "*"), ("*", name))

    def is_excused(node, name):
        return any(key in excused for key in alike(node, name))

    missing = {key for key in names - cases - with_others if not is_excused(*key)}
    assert not missing, f"write a packet for each, or say why there is none: {sorted(missing)}"
    gone = {(node, name) for node, name in cases if (node, name) not in names}
    assert not gone, f"no such names any more: {sorted(gone)}"
    stale = {key for key in excused if not any(key in alike(*name) for name in names)}
    assert not stale, f"excused, but no such names any more: {sorted(stale)}"
    both = {key for key in cases if is_excused(*key)}
    assert not both, f"these have a packet: {sorted(both)}"
