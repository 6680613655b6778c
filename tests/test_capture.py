"""`pcap trace` and trace filters with real hosts: other programs read the files."""

import re
import struct
import time

import pytest

from conftest import require
from lab import CommandFailed, INPUT_NODES, run, wait_until

scapy_all = pytest.importorskip("scapy.utils", reason="needs scapy (make deps)")


def blocks(data):
    """A pcapng file's blocks: type and body."""
    while data:
        kind, length = struct.unpack_from("<II", data)
        assert struct.unpack_from("<I", data, length - 4) == (length,)
        yield kind, data[8 : length - 4]
        data = data[length:]


def options(data):
    found = {}
    while data:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            break
        found[code] = data[4 : 4 + length]
        data = data[4 + (length + 3) // 4 * 4 :]
    return found


def read(path):
    """Packets as (interface, direction, comment, bytes)."""
    interfaces, packets = [], []
    for kind, body in blocks(path.read_bytes()):
        if kind == 1:
            interfaces.append(options(body[8:])[2].decode())
        elif kind == 6:
            number, _, _, taken, _ = struct.unpack_from("<IIIII", body)
            more = options(body[20 + (taken + 3) // 4 * 4 :])
            direction = {1: "in", 2: "out"}[struct.unpack("<I", more[2])[0]]
            packets.append((interfaces[number], direction, more.get(1, b"").decode(), body[20 : 20 + taken]))
    return packets


@pytest.fixture
def file(lab, tmp_path):
    return tmp_path / "capture.pcap"


def test_a_ping_is_seen_coming_and_going(two_hosts, file):
    router, h1, _ = two_hosts
    assert h1.reaches("10.0.2.2", count=1)
    router.cli(f"pcap trace rx tx file {file} filter icmp")
    start = time.time()
    assert h1.reaches("10.0.2.2", count=2)
    said = router.cli("pcap trace off")
    assert said == f"Write 8 packets to {file}, and stop capture...\n"
    kinds = [(name, way, bytes[34]) for name, way, _, bytes in read(file)]
    one = [("e0", "in", 8), ("e1", "out", 8), ("e1", "in", 0), ("e0", "out", 0)]
    assert kinds == one + one
    # The same to others: scapy finds ICMP, the times are of now.
    from scapy.layers.inet import ICMP

    packets = scapy_all.PcapNgReader(str(file)).read_all()
    assert len(packets) == 8 and all(ICMP in packet for packet in packets)
    times = [float(packet.time) for packet in packets]
    assert times == sorted(times) and start - 0.1 < times[0] <= times[-1] < time.time() + 0.1


def test_tcpdump_reads_a_capture_without_packets(lab, file):
    require("tcpdump")
    router = lab.router()
    router.cli(f"pcap trace drop file {file}")
    router.cli("pcap trace off")
    assert run("tcpdump", "-nr", file).stdout == ""


def test_tcpdump_reads_the_file(two_hosts, file):
    require("tcpdump")
    router, h1, _ = two_hosts
    router.cli(f"pcap trace rx max-bytes-per-pkt 64 file {file} filter icmp")
    assert h1.reaches("10.0.1.1", "-s", 1000, count=3)
    router.cli("pcap trace off")
    shown = h1.run("tcpdump", "-n", "-r", file).stdout
    assert len(re.findall(r"IP 10\.0\.1\.2 > 10\.0\.1\.1: ICMP echo request, id \d+, seq \d, length 1008", shown)) == 3
    assert {len(packet[3]) for packet in read(file)} == {64}


def test_drops_say_where_and_why(two_hosts, file):
    router, h1, _ = two_hosts
    router.cli("ip route add 192.0.2.0/24 via drop")
    router.cli(f"pcap trace drop file {file}")
    h1.ping("192.0.2.1", count=1, wait=0.2)
    raw = h1.frames()
    raw.send(
        bytes.fromhex(router.cli_json("show hardware-interfaces e0")["interfaces"][0]["mac"].replace(":", ""))
        + bytes.fromhex("02000000000a1234")
        + bytes(46)
    )
    wait_until(lambda: router.errors().get("unknown ethernet type"), "the frame is dropped")
    router.cli("pcap trace off")
    caught = {comment: (name, way, bytes) for name, way, comment, bytes in read(file)}
    assert caught["ip4-lookup: blackholed packets"][:2] == ("e0", "in")
    assert caught["ip4-lookup: blackholed packets"][2][23] == 1
    assert caught["ethernet-input: unknown ethernet type"][2][12:14] == b"\x12\x34"


def test_a_full_capture_is_written_without_being_asked(two_hosts, file):
    router, h1, _ = two_hosts
    router.cli(f"pcap trace rx max 5 file {file}")
    assert h1.reaches("10.0.1.1", count=8)
    wait_until(file.exists, "the file is written")
    assert len(read(file)) == 5
    shown = router.cli_json("show pcap trace")
    assert shown["running"] is None and shown["last"] == {"packets": 5, "file": str(file), "error": None}
    with pytest.raises(CommandFailed, match="no capture runs"):
        router.cli("pcap trace off")
    assert [path.name for path in file.parent.iterdir()] == [file.name], "nothing else is left"


def test_status_counts_and_a_second_capture_is_refused(two_hosts, file):
    router, h1, _ = two_hosts
    router.cli(f"pcap trace rx tx intfc e0 file {file}")
    assert h1.reaches("10.0.1.1", count=2)
    shown = router.cli_json("pcap trace status")["running"]
    assert (shown["interface"], shown["points"], shown["max"]) == ("e0", ["rx", "tx"], 1000)
    assert shown["rx"] >= 2 and shown["tx"] >= 2 and shown["drop"] == 0
    with pytest.raises(CommandFailed, match="a capture runs already"):
        router.cli("pcap trace rx")
    router.cli("pcap trace off")
    assert {name for name, *_ in read(file)} == {"e0"}


def test_an_interface_may_be_deleted_meanwhile(lab, file):
    router, h1, h2 = lab.two_hosts("tap")
    router.cli(f"pcap trace rx tx drop file {file}")
    assert h1.reaches("10.0.2.2", count=2)
    router.cli("delete tap e1")
    h1.ping("10.0.2.2", count=2, wait=0.2)
    router.cli("pcap trace off")
    assert {"e0", "e1"} <= {name for name, *_ in read(file)}


def test_segments_that_are_cut_later_are_captured_whole(lab, file):
    """A host that leaves segmentation to the device sends packets longer than any buffer."""
    from socket import SOCK_STREAM

    router, h1, h2 = lab.two_hosts("tap")
    server = h2.socket(SOCK_STREAM, ("10.0.2.2", 5000))
    server.listen()
    router.cli(f"pcap trace rx tx max-bytes-per-pkt 9216 file {file} filter tcp")
    client = h1.socket(SOCK_STREAM)
    client.connect(("10.0.2.2", 5000))
    peer, _ = server.accept()
    lab.stack.callback(peer.close)
    peer.settimeout(5)
    data = bytes(range(256)) * 400
    client.sendall(data)
    received = b""
    while len(received) < len(data):
        received += peer.recv(1 << 20)
    assert received == data
    router.cli("pcap trace off")
    assert max(len(bytes) for _, _, _, bytes in read(file)) > 2048


def test_only_packets_of_a_trace_filter_are_traced(two_hosts, driver):
    router, h1, _ = two_hosts
    entry = INPUT_NODES[driver]
    assert h1.reaches("10.0.2.2", count=1)
    router.cli("trace filter include icmp and host 10.0.2.2 and len >= 500")
    router.cli(f"trace add {entry} 2")
    assert h1.reaches("10.0.2.2", count=2)
    assert "No packets in trace buffer" in router.cli("show trace")
    assert h1.reaches("10.0.2.2", "-s", 600, count=3)
    shown = router.cli("show trace")
    assert shown.count(f": {entry}\n") == 2 and "length 628" in shown
    assert router.cli("show trace max 1").count(f": {entry}\n") == 1
    assert router.cli("show trace filter") == "include: icmp and host 10.0.2.2 and len >= 500\n"
    router.cli("clear trace")
    router.cli("trace filter none")
    router.cli(f"trace add {entry} 1")
    assert h1.reaches("10.0.2.2", count=1)
    assert router.cli("show trace").count(f": {entry}\n") == 1
