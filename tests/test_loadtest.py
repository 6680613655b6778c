"""The load tester: in front of Linux, of dpdk-testpmd, and of what it has in its own process.

    [ tester  eth0 ]---[ eth0  dut  eth1 ]---[ eth1  tester ]

The tester's ports are in one namespace, what it tests in another.
"""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import time

import pytest

from conftest import require
from lab import QUIVER, run, wait_until
from test_memif import Testpmd

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORT0 = "ip=100.64.1.2/30,gw=100.64.1.1"
PORT1 = "ip=100.64.2.2/30,gw=100.64.2.1"


def loadtest(*words, host=None, check=True):
    command = (QUIVER, "loadtest", *words)
    return host.run(*command, check=check) if host else run(*command, check=check)


def measure(*words, host=None):
    """A run's report."""
    return json.loads(loadtest("run", *words, "--output", "-", host=host).stdout)


@pytest.fixture
def linux(lab):
    """The tester's namespace, and Linux as a router between its two ports."""
    tester, dut = lab.host("tester"), lab.host("dut")
    for number in (0, 1):
        name = f"eth{number}"
        tester.ip("link", "add", name, "type", "veth", "peer", "name", name, "netns", dut.namespace)
        for host in (tester, dut):
            host.ip("link", "set", name, "up")
        dut.ip("address", "add", f"100.64.{number + 1}.1/30", "dev", name)
    dut.set("net/ipv4/ip_forward", 1)
    dut.ip("route", "add", "16.0.0.0/8", "via", "100.64.1.2")
    dut.ip("route", "add", "48.0.0.0/8", "via", "100.64.2.2")
    # Of the full table's destinations.
    dut.ip("route", "add", "default", "via", "100.64.2.2")
    return tester, dut


def ports(driver):
    return "--port", f"{driver}:eth0,{PORT0}", "--port", f"{driver}:eth1,{PORT1}"


class Capture:
    """What passes an interface, as tshark reads it."""

    def __init__(self, host, interface, directory):
        require("tshark")
        self.file = directory / f"{interface}.pcap"
        self.process = host.start(
            "tcpdump",
            "-i",
            interface,
            "-B",
            65536,
            "-Z",
            "root",
            "--immediate-mode",
            "-U",
            "-w",
            self.file,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        # Then it captures.
        lines = iter(self.process.stderr.readline, "")
        assert any("listening" in line for line in lines)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=30)[1]
        assert "0 packets dropped by kernel" in said, said

    def count(self, wanted):
        checks = ("-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE")
        return len(
            run("tshark", *checks, "-r", self.file, "-Y", wanted, "-T", "fields", "-e", "frame.number").stdout.split()
        )


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["af_packet", "af_xdp"])
def test_linux_forwards_all_and_tshark_agrees(linux, driver, tmp_path):
    tester, dut = linux
    captures = [Capture(dut, name, tmp_path) for name in ("eth0", "eth1")]
    report = measure(
        *ports(driver),
        "-p",
        "bench-var2-imix",
        "-m",
        "3kpps",
        "-d",
        "1.5",
        "--direction",
        "bi",
        "--drain",
        "0.5",
        host=tester,
    )
    time.sleep(0.2)
    for capture in captures:
        capture.stop()
    assert len(report["streams"]) == 6 and report["ended"] == "duration"
    for way, network in enumerate(("16.0.0.0/8", "48.0.0.0/8")):
        port = report["ports"][way]
        streams = [stream for stream in report["streams"] if stream["port"] == way]
        assert port["sent_packets"] > 300
        assert port["lost_packets"] == 0, report["ports"]
        assert all(
            stream["latency"]["min"] > 0 and stream["latency"]["samples"] == stream["received_packets"]
            for stream in streams
        )
        assert sum(stream["duplicates"] + stream["reordered"] + stream["elsewhere"] for stream in streams) == 0
        came, left = captures[way], captures[1 - way]
        good = f"ip.src == {network} && ip.checksum.status == 1 && udp.checksum.status == 1"
        assert came.count(good) == port["sent_packets"]
        assert left.count(good) == port["received_packets"]
        for stream in streams:
            buffer, frame, wire = stream["sizes"][0]
            assert (frame, wire) == (buffer + 4, buffer + 24)
            assert left.count(f"{good} && frame.len == {buffer}") == stream["received_packets"]


def test_what_linux_drops_is_lost_and_nothing_else(linux):
    tester, dut = linux
    dut.ip("route", "add", "blackhole", "48.0.0.128/25")
    report = measure(*ports("af_packet"), "-p", "bench-var2-64b", "-m", "5kpps", "-d", "1", host=tester)
    port = report["ports"][0]
    assert port["not_sent"]["refused"] == 0
    # They go to 48.0.0.1 to 48.0.0.254, one after the other.
    dropped = sum(1 + n % 254 >= 128 for n in range(port["sent_packets"]))
    assert dropped > 1000
    assert port["lost_packets"] == dropped


def test_neighbours_of_ipv6_are_found(linux):
    tester, dut = linux
    for number in (0, 1):
        dut.speak_ip6(f"2001:2:0:{number + 1}::1/64", interface=f"eth{number}")
    dut.set("net/ipv6/conf/all/forwarding", 1)
    dut.ip("-6", "route", "add", "2001:2:0:16::/64", "via", "2001:2:0:1::2")
    dut.ip("-6", "route", "add", "2001:2:0:48::/64", "via", "2001:2:0:2::2")
    ports6 = [
        word
        for n in (0, 1)
        for word in ("--port", f"af_packet:eth{n},ip=2001:2:0:{n + 1}::2/64,gw=2001:2:0:{n + 1}::1")
    ]
    report = measure(*ports6, "-p", "ip6-cimix", "-m", "2kpps", "-d", "1", "--direction", "bi", host=tester)
    for stream in report["streams"]:
        assert stream["sent_packets"] > 100
        assert stream["lost_packets"] == 0
        assert stream["timed"] == (stream["name"] == "large")


@pytest.mark.slow
def test_every_profile_arrives_as_it_was_made(linux, tmp_path):
    """On a wire without a router: what tshark says of it."""
    tester, dut = linux
    macs = [dut.mac("eth0"), dut.mac("eth1")]
    seen = {}
    for name in loadtest("profiles").stdout.split("\n"):
        if not name:
            continue
        name = name.split()[0]
        capture = Capture(dut, "eth0", tmp_path)
        report = measure(
            "--port",
            f"af_packet:eth0,dst={macs[0]}",
            "--port",
            f"af_packet:eth1,dst={macs[1]}",
            "-p",
            name,
            "-m",
            "1kpps",
            "-d",
            "0.4",
            "--drain",
            "0.05",
            host=tester,
        )
        time.sleep(0.2)
        capture.stop()
        bad = capture.count(
            "ip.checksum.status == 0 || udp.checksum.status == 0 || tcp.checksum.status == 0 || _ws.malformed"
        )
        ours = capture.count("ip.src == 16.0.0.0/8 || ipv6.src == 2001:2:0:16::/64")
        seen[name] = (bad, ours - report["ports"][0]["sent_packets"])
    assert len(seen) == 13
    assert set(seen.values()) == {(0, 0)}, seen


@pytest.mark.slow
def test_a_frame_of_every_layer_is_what_the_profile_says(linux, tmp_path):
    tester, dut = linux
    frame = bytes.fromhex("0200000000bb0200000000aa88b5") + bytes(range(60))
    (tmp_path / "two.pcap").write_bytes(
        bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")
        + b"".join(bytes(8) + len(frame).to_bytes(4, "little") * 2 + frame for _ in range(2))
    )
    profile = tmp_path / "all.toml"
    profile.write_text("""
description = "All sorts."
[[stream]]
name = "qinq"
size = 100
layers = [{ vlan = { id = 100 } }, { vlan = { id = 200, pcp = 5 } }, { ipv4 = { dscp = 46, ttl = 9 } },
    { icmp = { id = 7 } }]
mode = { burst = { packets = 3 } }
rate = "1kpps"
[[stream]]
name = "mpls6"
size = 120
layers = [{ mpls = { label = 1000, tc = 3 } }, { mpls = { label = 1001 } }, { ipv6 = {} },
    { tcp = { flags = "SA", window = 77 } }]
vary = [{ field = "mpls[1].label", from = 1001, to = 1003 }]
mode = { burst = { packets = 3 } }
rate = "1kpps"
[[stream]]
name = "raw"
size = 64
layers = [{ raw = "02 00 00 00 00 bb 02 00 00 00 00 aa 88 b6" }, { payload = "ab cd" }]
tag = false
mode = { burst = { packets = 2 } }
rate = "1kpps"
[[stream]]
name = "pcap"
pcap = "two.pcap"
tag = false
mode = { burst = { packets = 4 } }
rate = "1kpps"
""")
    capture = Capture(dut, "eth0", tmp_path)
    report = measure(
        "--port", f"af_packet:eth0,dst={dut.mac('eth0')}", "-p", profile, "-d", "10", "--drain", "0.1", host=tester
    )
    time.sleep(0.2)
    capture.stop()
    assert report["ended"] == "sent"
    assert [stream["sent_packets"] for stream in report["streams"]] == [3, 3, 2, 4]
    assert [stream["accounted"] for stream in report["streams"]] == [True, True, False, False]
    assert (
        capture.count(
            "ieee8021ad.id == 100 && vlan.id == 200 && vlan.priority == 5 && ip.dsfield.dscp == 46 && ip.ttl == 9 "
            "&& icmp.type == 8 && icmp.checksum.status == 1"
        )
        == 3
    )
    assert capture.count("eth.type == 0x88a8") == 3
    for label in (1001, 1002, 1003):
        assert (
            capture.count(
                f"mpls.label == 1000 && mpls.exp == 3 && mpls.label == {label} && tcp.flags == 0x12 && "
                f"tcp.window_size_value == 77 && tcp.checksum.status == 1"
            )
            == 1
        )
    assert capture.count("eth.type == 0x88b6 && frame[14:4] == ab:cd:ab:cd && frame.len == 64") == 2
    assert capture.count("eth.type == 0x88b5 && frame[14:3] == 00:01:02 && frame.len == 74") == 4


@pytest.mark.slow
def test_testpmd_hands_on_what_it_gets(lab, tmp_path):
    """Two memifs; it counts as we do."""
    sockets = [tmp_path / f"{number}.sock" for number in (0, 1)]
    # It numbers them as they stand on its command line: this one is its port 0.
    second = f" --vdev=net_memif1,role=server,id=0,socket={sockets[1]},socket-abstract=no"
    testpmd = Testpmd(lab, "master", sockets[0], "io", memory="--no-huge" + second, topology="paired")
    tester = subprocess.Popen(
        [
            QUIVER,
            "loadtest",
            "run",
            "--port",
            f"memif:{sockets[0]},dst=02:00:00:00:00:01",
            "--port",
            f"memif:{sockets[1]},dst=02:00:00:00:00:02",
            "-p",
            "bench-var2-64b",
            "-m",
            "20kpps",
            "-d",
            "2",
            "--direction",
            "bi",
            "--drain",
            "5",
            "--output",
            tmp_path / "report.json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # It cannot stand it when a peer comes while it forwards.
    is_up = lambda number: "Link status: up" in testpmd.tell(f"show port info {number}")
    wait_until(lambda: is_up(0) and is_up(1), "both sides are connected", seconds=20)
    testpmd.tell("start")
    time.sleep(3.5)
    # Its counts go with its peer, who still listens.
    assert tester.poll() is None
    stats = [testpmd.counts(number) for number in (1, 0)]
    said = tester.communicate(timeout=60)[0]
    assert tester.returncode == 0, said
    report = json.loads((tmp_path / "report.json").read_text())
    for way in (0, 1):
        port = report["ports"][way]
        assert port["sent_packets"] > 300
        assert (port["sent_packets"], port["received_packets"]) == (stats[way][0], stats[1 - way][1]), (port, stats)
        assert port["lost_packets"] == 0


def test_a_configuration_of_trex_is_taken(linux, tmp_path):
    tester, dut = linux
    config = tmp_path / "trex_cfg.yaml"
    config.write_text("""
- version: 2
  interfaces: ['af_packet:eth0', 'af_packet:eth1']
  port_bandwidth_gb: 10
  c: 6
  port_info:
      - ip        : 100.64.1.2
        default_gw: 100.64.1.1
      - ip        : 100.64.2.2
        default_gw: 100.64.2.1
""")
    report = measure("--config", config, "-p", "bench", "-m", "0.01%", "-d", "1", host=tester)
    port = report["ports"][0]
    # One ten thousandth of 14.88 Mpps.
    assert port["line_bps"] == 10e9
    assert port["sent_packets"] + sum(port["not_sent"].values()) == pytest.approx(1488, rel=0.2)
    assert port["lost_packets"] == 0
    config.write_text(f"""
- version: 2
  interfaces: ['af_packet:eth0', 'af_packet:eth1']
  port_info:
      - src_mac: [0x0A,0x0B,0x0C,0x01,0x02,0xAA] # Mac A
        dest_mac: "{dut.mac("eth0")}"
      - src_mac: [0x0A,0x0B,0x0C,0x01,0x02,0xBB]
        dest_mac: "{dut.mac("eth1")}"
""")
    dut.ip("neigh", "replace", "100.64.2.2", "lladdr", "0a:0b:0c:01:02:bb", "dev", "eth1")
    report = measure("--config", config, "-p", "bench", "-m", "1kpps", "-d", "0.5", host=tester)
    assert report["ports"][0]["received_packets"] == report["ports"][0]["sent_packets"] > 300


BEHIND = ("--interval", "0.2")
EACH_METHOD = {
    "matrix": ("-d", "0.3", "--speed", "5m"),
    "saturate": ("-d", "0.3", "--rates", "1kpps,5kpps"),
    "ramp": ("-wd", "0.2", "-rd", "0.6", "-hd", "0.2", "-rt", "20", "--speed", "10m"),
    "search": ("--trial", "0.2", "--duration-sum", "0.4", "--width", "20", "--speed", "2m", "--direction", "uni"),
    "sweep": ("-d", "0.3", "--sizes", "64,512", "--speed", "2m"),
    "soak": ("-d", "0.6", "-m", "1kpps"),
}


@pytest.mark.slow
@pytest.mark.parametrize("given", ["--config", "--port"])
@pytest.mark.parametrize("method", EACH_METHOD)
def test_each_method_tests_what_is_behind_its_ports(linux, tmp_path, method, given):
    """Without '--dut': who gives ports means the device behind them."""
    tester, dut = linux
    config = tmp_path / "trex_cfg.yaml"
    config.write_text("""
- version: 2
  interfaces: ['af_packet:eth0', 'af_packet:eth1']
  port_info:
      - ip        : 100.64.1.2
        default_gw: 100.64.1.1
      - ip        : 100.64.2.2
        default_gw: 100.64.2.1
""")
    where = ("--config", config) if given == "--config" else ports("af_packet")
    file = tmp_path / "session.json"
    kept = ("-o", tmp_path) if method == "matrix" else ("--session", file)

    def forwarded():
        names, figures = (
            line.split() for line in dut.run("cat", "/proc/net/snmp").stdout.splitlines() if line.startswith("Ip:")
        )
        return int(figures[names.index("ForwDatagrams")])

    before = forwarded()
    loadtest(method, *where, *BEHIND, *EACH_METHOD[method], *kept, host=tester)
    (test,) = json.loads((tmp_path / "report.json" if method == "matrix" else file).read_text())["tests"]
    device = test.get("device") or test["total"]["device"]
    assert (test["method"], device) == (method, "outside")
    # They went through Linux there, not through a router of this program.
    assert forwarded() - before > 20


def test_ports_of_a_device_that_has_its_own_are_refused():
    for method in EACH_METHOD:
        done = loadtest(method, "--dut", "quiver", "--port", "null", check=False)
        assert done.returncode == 1 and "leave '--dut' out, or write '--dut outside'" in done.stderr, (
            method,
            done.stderr,
        )


@pytest.mark.slow
def test_a_port_in_a_vlan_asks_and_sends_with_its_tag(lab, tmp_path):
    """'vlan' of a T-Rex configuration: ARP and streams have the tag, those with tags of their own keep them."""
    tester = lab.host("tester")
    # This kernel may have no VLANs: the router between the ports is one of ours.
    router = lab.router()
    for number in (0, 1):
        router.attach(tester, f"e{number}", "af_packet", None, interface=f"eth{number}")
    router.batch("""
set interface state e0 up
set interface state e1 up
create sub-interfaces e0 100
set interface state e0.100 up
set interface ip address e0.100 100.64.1.1/30
set interface ip address e1 100.64.2.1/30
ip route add 16.0.0.0/8 via 100.64.1.2
ip route add 48.0.0.0/8 via 100.64.2.2
""")
    config = tmp_path / "trex_cfg.yaml"
    config.write_text("""
- version: 2
  interfaces: ['af_packet:eth0', 'af_packet:eth1']
  port_info:
      - ip        : 100.64.1.2
        default_gw: 100.64.1.1
        vlan      : 100
      - ip        : 100.64.2.2
        default_gw: 100.64.2.1
""")
    capture = Capture(tester, "eth0", tmp_path)
    report = measure("--config", config, "-p", "bench", "-m", "2kpps", "-d", "1", "--direction", "bi", host=tester)
    capture.stop()
    for port in report["ports"]:
        assert port["sent_packets"] > 500 and port["lost_packets"] == 0, port
    assert capture.count("arp.opcode == 1 && vlan.id == 100 && arp.src.proto_ipv4 == 100.64.1.2") >= 1
    assert capture.count("arp && !vlan && arp.src.proto_ipv4 == 100.64.1.2") == 0
    # A frame of 60 bytes has 64 with its tag.
    assert (
        capture.count("udp && vlan.id == 100 && ip.dst == 48.0.0.1 && frame.len == 64")
        == report["ports"][0]["sent_packets"]
    )
    assert capture.count("udp && ip.dst == 48.0.0.1 && !vlan") == 0
    own = tmp_path / "own.toml"
    own.write_text("[[stream]]\nsize = 60\nlayers = [{ vlan = { id = 7 } }, { ipv4 = {} }, { udp = {} }]\n")
    capture = Capture(tester, "eth0", tmp_path)
    report = measure("--config", config, "-p", own, "-m", "1kpps", "-d", "0.3", host=tester)
    capture.stop()
    assert capture.count("udp && vlan.id == 7 && frame.len == 60") == report["ports"][0]["sent_packets"] > 100


def test_a_port_that_goes_away_ends_the_run_and_keeps_the_figures(linux, tmp_path):
    tester, dut = linux
    file = tmp_path / "report.json"
    process = tester.start(
        QUIVER,
        "loadtest",
        "run",
        *ports("af_packet"),
        "-p",
        "bench",
        "-m",
        "2kpps",
        "-d",
        "60",
        "-o",
        file,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_until(
        lambda: int(dut.ip("-s", "-o", "link", "show", "eth0").split("RX:")[1].split()[8]) > 1000,
        "packets flow",
        seconds=20,
    )
    dut.ip("link", "delete", "eth0")
    said, failed = process.communicate(timeout=20)
    assert process.returncode == 1
    assert re.search(
        r"port 0 \(af_packet:eth0,.*\): its link went down after \d+\.\d s; what was counted until then is above",
        failed,
    ), failed
    report = json.loads(file.read_text())
    assert "its link went down" in report["ended"]
    assert report["ports"][0]["received_packets"] > 100
    assert "0>1" in said


def test_ctrl_c_stops_and_keeps_what_was_measured():
    process = subprocess.Popen(
        [QUIVER, "loadtest", "run", "--dut", "quiver", "-p", "bench", "-m", "1kpps", "-d", "60", "-o", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    said, failed = process.communicate(timeout=20)
    assert process.returncode == 130, failed
    report = json.loads(said)
    assert report["ended"] == "interrupt"
    assert 0 < report["ports"][0]["sent_packets"] < 59_000


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["-p", "no-such"], "no-such: no such file, and no built-in profile of this name"),
        (["-p", "bench-var2-64"], "did you mean 'bench-var2-64b'?"),
        (["-m", "fast"], "'fast' is not a rate: write packets ('1kpps'"),
        (["-m", "10%"], "say 'speed=10g' for the port"),
        (["-d", "0"], "seconds, 0.001 or more"),
        (["--dut", "toaster"], "'toaster' is no device"),
        (["--dut", "reference:noise=3"], "the reference device knows lose,"),
        (["--port", "af_packet:nowhere0"], "port 0 (af_packet:nowhere0)"),
        (["--port", "null,gw=1.2.3.4"], "who asks for a gateway has an address itself"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
    ],
)
def test_what_cannot_be_is_refused_in_words(words, wrong):
    more = [] if words[0] in ("--dut", "--port", "--config") else ["--dut", "quiver"]
    done = loadtest("run", *more, *words, check=False)
    assert done.returncode != 0
    assert wrong in done.stderr, done.stderr
    assert "panicked" not in done.stderr


def test_no_ports_are_refused():
    done = loadtest("run", check=False)
    assert "there are no ports: name some ('--port'), or a device in this process ('--dut')" in done.stderr


@pytest.mark.slow
def test_a_gateway_that_does_not_answer_is_told(linux):
    tester, dut = linux
    done = loadtest("run", "--port", "af_packet:eth0,ip=100.64.1.2/24,gw=100.64.1.77", host=tester, check=False)
    assert (
        "port 0 (af_packet:eth0,ip=100.64.1.2/24,gw=100.64.1.77): 100.64.1.77 does not answer ARP requests: is the "
        "device up" in done.stderr
    )
    dut.ip("link", "set", "eth0", "down")
    done = loadtest("run", "--port", "af_packet:eth0", host=tester, check=False)
    assert "its link is down: is the other side there, and up?" in done.stderr


def test_a_bad_profile_is_told_with_its_place(tmp_path):
    profile = tmp_path / "bad.toml"
    profile.write_text('[[stream]]\nsize = 60\nlayers = [{ ipv4 = { source = "16.0.0.1", colour = 3 } }]\n')
    done = loadtest("run", "--dut", "quiver", "-p", profile, check=False)
    assert f"{profile}:3:43: unknown field `colour`" in done.stderr, done.stderr
    assert f"{profile}:3:43: unknown field" in loadtest("check", profile, check=False).stderr


def test_a_file_that_is_no_profile_is_named_and_not_replaced(tmp_path):
    """Nor by the built-in profile of its name."""
    capture = (ROOT / "crates/loadtest/profiles/bench.toml").read_bytes()
    files = {
        "bench.py": (
            b"from trex_stl_lib.api import *\n\nclass STLS1(object):\n    def get_streams(self):\n        return []\n",
            "T-Rex Python is not read yet",
        ),
        "stl/imix.py": (b"from trex.stl.api import *\n", "(the built-in 'bench-var2-imix'"),
        "bench": (
            b"- duration : 1\n  generator :\n    distribution : seq\n  cap_info :\n    - name: a.pcap\n",
            "YAML of T-Rex's stateful mode is not read yet",
        ),
        "mpls.json": (b'[{"id": 1}]', "JSON is not read yet"),
        "bench.pcap": (b"\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + bytes(16), "a stream can send its frames"),
        "bench.toml": (capture.replace(b"size", b"siez"), "bench.toml:"),
    }
    for name, (content, wrong) in files.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        for given in (str(file), *([name] if "." in name else [f"./{name}"])):
            done = subprocess.run(
                [QUIVER, "loadtest", "run", "--dut", "null", "-p", given, "-d", "0.1"],
                cwd=tmp_path,
                capture_output=True,
                text=True,
            )
            assert done.returncode == 1 and wrong in done.stderr, (given, done.stderr)
            assert "sent" not in done.stdout
    # The bare name is that of a profile, and it is said.
    done = subprocess.run([QUIVER, "loadtest", "check", "bench"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "the file of this name is './bench'" in done.stderr
    # T-Rex's names stand for profiles where there are no such files.
    assert "port 0: " in loadtest("check", "stl/udp_1pkt_simple.py").stdout
    missing = loadtest("check", "/opt/nowhere/bench.py", check=False)
    assert missing.returncode == 1 and "no such file" in missing.stderr
    for odd, wrong in (("/dev/zero", "not a regular file"), (tmp_path, "is a directory")):
        done = loadtest("check", odd, check=False)
        assert done.returncode == 1 and f"{odd}: {wrong}" in done.stderr, done.stderr


def pcap_of(frames, link=1, snap=None):
    """A pcap file; `snap` cuts packets short."""
    records = b"".join(
        struct.pack("<IIII", n, 0, len(frame[:snap]), len(frame)) + frame[:snap] for n, frame in enumerate(frames)
    )
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap or 65535, link) + records


def udp(size):
    """A frame of IPv4 and UDP with so many bytes."""
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, size - 14, 0, 0, 64, 17, 0, bytes([16, 0, 0, 1]), bytes([48, 0, 0, 1]))
    return (
        bytes.fromhex("020000000001020000000002 0800")
        + ip
        + struct.pack("!HHHH", 1025, 12, size - 34, 0)
        + bytes(n % 251 for n in range(size - 42))
    )


SIZES = (60, 61, 575, 1513, 1514)


def simple_blocks(frames):
    """pcapng with simple packet blocks, which are filled up to four bytes."""
    blocks = [(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)), (1, struct.pack("<HHI", 1, 0, 0))]
    blocks += [(3, struct.pack("<I", len(frame)) + frame + bytes(-len(frame) % 4)) for frame in frames]
    return b"".join(
        struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12) for kind, body in blocks
    )


@pytest.mark.parametrize(
    ("content", "sizes"),
    [
        (simple_blocks([udp(size) for size in SIZES]), SIZES),
        # Cut short by 'tcpdump -s 96': as long as they were.
        (pcap_of([udp(size) for size in (60, 61, 575)], snap=96), (60, 61, 575)),
        # With frame check sequence, and the bits of the link type that say so.
        (pcap_of([udp(size) + b"\xde\xad\xbe\xef" for size in (60, 1514)], link=0x24000001), (60, 1514)),
        (pcap_of([udp(size) for size in (9000, 9216)]), (9000, 9216)),
    ],
    ids=["simple-blocks", "snap-length", "fcs", "jumbo"],
)
def test_captures_are_sent_as_they_were_on_the_wire(tmp_path, content, sizes):
    (tmp_path / "frames.pcap").write_bytes(content)
    profile = tmp_path / "capture.toml"
    profile.write_text('[[stream]]\nrate = "1kpps"\npcap = "frames.pcap"\n')
    said = loadtest("check", profile).stdout
    wanted = " ".join(f"{size}/{size + 4}/{size + 24}" for size in sizes)
    assert f"pps of {wanted} bytes (buffer/frame/wire)" in said, said
    report = measure("--dut", "reference:", "-p", profile, "--packets", str(20 * len(sizes)), "-d", "20")
    port = report["ports"][0]
    assert (port["sent_packets"], port["lost_packets"]) == (20 * len(sizes), 0)
    assert report["streams"][0]["sent_bytes"] == 20 * sum(sizes), report["streams"][0]


def test_a_capture_keeps_its_timing_and_has_its_fields_changed(tmp_path):
    frames = [udp(60), udp(1514), udp(9000)]
    times = [0, 10_000, 30_000]
    records = b"".join(struct.pack("<IIII", 5, at, len(frame), len(frame)) + frame for at, frame in zip(times, frames))
    (tmp_path / "frames.pcap").write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + records)
    profile = tmp_path / "capture.toml"
    profile.write_text("""
[[stream]]
pcap = "frames.pcap"
timing = "capture"
vary = [{ field = "ipv4.source", from = "16.0.0.1", to = "16.0.0.250" }]
""")
    # Ten and twenty milliseconds, and fifteen in the mean until it begins anew.
    report = measure("--dut", "reference:", "-p", profile, "-d", "0.9")
    port = report["ports"][0]
    assert 30 <= port["sent_packets"] <= 75 and port["lost_packets"] == 0, port
    # At another rate it goes so many times as fast.
    report = measure("--dut", "reference:", "-p", profile, "-d", "0.9", "-m", "4")
    assert 120 <= report["ports"][0]["sent_packets"] <= 300


def test_streams_follow_each_other(tmp_path):
    profile = tmp_path / "chain.toml"
    layers = "layers = [{ ipv4 = {} }, { udp = {} }]"
    profile.write_text(f"""
[[stream]]
name = "first"
size = 60
rate = "1kpps"
mode = {{ burst = {{ packets = 50 }} }}
next = "second"
{layers}

[[stream]]
name = "second"
size = "60+1514"
rate = "1kpps"
isg = 0.1
mode = {{ burst = {{ packets = 70 }} }}
{layers}
""")
    for cores in ("0", "0,1"):
        report = measure("--dut", "quiver", "-p", profile, "-d", "20", "--cores", cores)
        assert report["ended"] == "sent"
        # On a busy machine, a packet that is late by more than the limit is not sent, but counted.
        due = {
            stream["name"]: stream["sent_packets"] + sum(stream["not_sent"].values()) for stream in report["streams"]
        }
        assert due == {"first": 50, "second": 70}
        # Fifty milliseconds, a hundred, seventy.
        assert report["seconds"] > 0.2 and report["ports"][0]["lost_packets"] == 0


def test_captures_that_cannot_be_are_refused(tmp_path):
    profile = tmp_path / "capture.toml"
    os.mkfifo(tmp_path / "fifo.pcap")
    for name, content, wrong in (
        ("long.pcap", pcap_of([udp(9217)]), "packet 1: 9217 bytes (1 to 9216 can be sent)"),
        ("wifi.pcap", pcap_of([udp(60)], link=105), "not a capture of Ethernet frames: its link type is 105"),
        ("fifo.pcap", None, "not a regular file"),
        ("none.pcap", b"", "not a pcap or pcapng file"),
        ("cut.pcap", pcap_of([udp(60), udp(60)])[:-1], "packet 2: the file ends within it"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content)
        profile.write_text(f'[[stream]]\nname = "s"\nrate = "1kpps"\npcap = "{name}"\n')
        done = loadtest("check", profile, check=False)
        assert done.returncode == 1 and f"{profile}:1:1: stream 's': {tmp_path / name}: {wrong}" in done.stderr, (
            done.stderr
        )


@pytest.mark.slow
def test_this_router_in_the_same_process_forwards_all_profiles():
    for name in ("bench", "bench-var2-1514b", "mpls", "ip6-cimix", "tcp-syn", "vxlan"):
        report = measure("--dut", "quiver", "-p", name, "-m", "5kpps", "-d", "0.5", "--direction", "bi")
        for port in report["ports"]:
            assert port["sent_packets"] > 300, name
            assert port["lost_packets"] == 0, (name, port)


def test_jumbo_frames_go_through_this_router(tmp_path):
    profile = tmp_path / "jumbo.toml"
    profile.write_text(
        "[[stream]]\nsizes = [{ size = 9014, weight = 1 }, { size = 2049, weight = 2 }, { size = 60, weight = 3 }]\n"
        "layers = [{ ipv4 = {} }, { udp = { checksum = true } }]\n"
    )
    report = measure("--dut", "quiver", "-p", profile, "-m", "3kpps", "-d", "1", "--direction", "bi")
    for port in report["ports"]:
        assert port["sent_packets"] > 300 and port["lost_packets"] == 0, port
    for stream in report["streams"]:
        assert stream["sizes"] == [[size, size + 4, size + 24] for size in (60, 2049, 9014)]
        assert stream["received_bytes"] == stream["sent_bytes"] > 300 * (9014 + 2 * 2049 + 3 * 60) / 6


def test_two_workers_share_streams_and_the_router_has_two():
    report = measure(
        "--dut",
        "quiver",
        "-p",
        "bench-var2-imix",
        "-m",
        "20kpps",
        "-d",
        "1",
        "--direction",
        "bi",
        "--cores",
        "0,1",
        "--dut-cores",
        "0,1",
    )
    for port in report["ports"]:
        assert port["sent_packets"] > 500 and port["lost_packets"] == 0, port
    for stream in report["streams"]:
        assert stream["duplicates"] == 0 and stream["received_packets"] == stream["sent_packets"]
    # Each of them made packets, and each of the router's had some.
    for runtime, node in ((report["own_runtime"], "loadtest-input"), (report["runtime"], "ip4-rewrite")):
        vectors = [int(line.split()[3]) for line in runtime.splitlines() if line.startswith(node)]
        assert len(vectors) == 2 and all(vectors), runtime


def test_taps_are_ports(lab):
    dut = lab.host("dut")
    dut.set("net/ipv4/ip_forward", 1)
    said = dut.start(
        QUIVER,
        "loadtest",
        "run",
        "--port",
        f"tap:t0,{PORT0}",
        "--port",
        f"tap:t1,{PORT1}",
        "-m",
        "2kpps",
        "-d",
        "1",
        "-o",
        "-",
        stdout=subprocess.PIPE,
    )
    for number in (0, 1):
        wait_until(lambda: dut.run("ip", "link", "show", f"t{number}", check=False).returncode == 0, "the tap is there")
        dut.ip("address", "add", f"100.64.{number + 1}.1/30", "dev", f"t{number}")
        dut.ip("link", "set", f"t{number}", "up")
    dut.ip("route", "add", "16.0.0.0/8", "via", "100.64.1.2")
    dut.ip("route", "add", "48.0.0.0/8", "via", "100.64.2.2")
    port = json.loads(said.communicate(timeout=60)[0])["ports"][0]
    assert port["sent_packets"] > 300 and port["lost_packets"] == 0, port


def test_the_guide_is_right(tmp_path):
    guide = (ROOT / "docs/guide/load-tester.md").read_text()
    profiles = re.findall(r"^```toml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    assert len(profiles) == 3
    for number, text in enumerate(profiles):
        (tmp_path / f"{number}.toml").write_text(text)
        assert "counted and timed" in loadtest("check", tmp_path / f"{number}.toml").stdout
    # What it says that the calculator prints, and each option of a run.
    command, said = re.search(
        r"^```sh\nquiver (loadtest linerate .*)\n```\n\n```\n(.*?)^```", guide, re.MULTILINE | re.DOTALL
    ).groups()
    assert run(QUIVER, *command.split()).stdout == said
    for option in re.findall(r"^ +(?:-., )?(--[a-z-]+)", loadtest("run", "--help").stdout, re.MULTILINE):
        assert option == "--help" or f"`{option}`" in guide, option
    for option in re.findall(r"^ +(?:-., )?(--[a-z_-]+)", loadtest("ramp", "--help").stdout, re.MULTILINE):
        assert option in ("--help", "--session", "--html") or f"`{option}`" in guide, option
    for action in re.findall(r"^  ([a-z]+)  ", run(QUIVER, "loadtest", "--help").stdout, re.MULTILINE):
        assert action == "help" or f"`quiver loadtest {action}" in guide, action
    # The example can be drawn still, and its page is the one beside it.
    run(QUIVER, "loadtest", "report", ROOT / "docs/examples/soak.json", "-o", tmp_path / "soak.html")
    assert (tmp_path / "soak.html").read_text() == (ROOT / "docs/examples/soak.html").read_text()
    # The router's configuration is the one that it has.
    configuration = re.search(r"^```quiver\n(set interface state e0 up\n.*?)^```", guide, re.MULTILINE | re.DOTALL)[1]
    assert configuration.replace("\n", "\\n") in (ROOT / "crates/loadtest/src/device/quiver.rs").read_text().replace(
        "\n", "\\n"
    )


def test_a_known_device_is_told_exactly():
    report = measure("--dut", "reference:lose=1000,duplicate=500,delay=3ms", "-p", "bench", "-m", "20kpps", "-d", "1")
    port, stream = report["ports"][0], report["streams"][0]
    assert port["lost_packets"] == port["sent_packets"] // 1000
    assert stream["duplicates"] == (port["sent_packets"] - port["lost_packets"]) // 500
    assert 2999 <= stream["latency"]["min"] < 30_000
    assert stream["pdv"]["min"] == 0
    assert any("reference device itself, 0>1" in note for note in report["notes"])


def test_samples_and_text_are_there(tmp_path):
    file = tmp_path / "report.json"
    said = loadtest(
        "run",
        "--dut",
        "quiver",
        "-p",
        "bench-var2-imix",
        "-m",
        "3kpps",
        "-d",
        "1",
        "--interval",
        "0.2",
        "--speed",
        "1g",
        "-o",
        file,
    ).stdout
    report = json.loads(file.read_text())
    assert report["format"] == "quiver-loadtest/1"
    assert 3 <= len(report["samples"]) <= 5
    sent = [sample["ports"][0]["sent_packets"] for sample in report["samples"]]
    assert sent == sorted(sent) and sent[0] > 0
    assert report["probe"] and report["machine"]["ticks_per_second"] > 1e8
    for line in (
        "Device quiver, rate 3kpps",
        "1514/1518/1538",
        "sent after it was due",
        "PDV",
        "IPDV",
        "24 bytes more than in the buffer",
    ):
        assert line in said
    assert "ip4-lookup" in report["runtime"]


def test_the_calculator_knows_the_figures_of_the_documents():
    said = loadtest("linerate", "--speed", "2.5g").stdout
    assert "3.72 Mpps" in said
    said = loadtest("linerate", "--speed", "10g", "--frequency", "2g", "--pcie", "5gtx4").stdout
    for figure in ("14.88 Mpps", "67.2 ns", "134.4", "8b/10b: 16 Gbit/s"):
        assert figure in said
    assert "16.8 ns" in loadtest("linerate", "--speed", "40g").stdout
    said = loadtest("linerate", "--speed", "100g", "--frequency", "2g").stdout
    assert "6.72 ns" in said and "13.44" in said
    assert "31.51 Gbit/s" in loadtest("linerate", "--pcie", "3x4").stdout
    for size in (("--size", "1518"), ("--buffer-size", "1514")):
        said = loadtest("linerate", "--speed", "2.5g", *size).stdout
        assert (
            "1514/1518/1538 bytes" in said
            and "(203185 pps)" in said
            and "203715 pps, which the line does not carry" in said
        )
    said = loadtest("linerate", "--speed", "2.5g", "--size", "64").stdout
    assert (
        "Frames of 60/64/84 bytes" in said
        and "3.72 Mpps" in said
        and "a frame of 68: 3551136 pps ('--buffer-size 64')" in said
    )
    refused = loadtest("linerate", "--size", "60", check=False)
    assert refused.returncode != 0 and "60 without it are '--buffer-size 60'" in refused.stderr
    as_json = json.loads(loadtest("linerate", "--json", "--pcie", "8gtx4").stdout)
    assert as_json["line"]["wire_bytes"] == 84 and as_json["slot"]["coding"] == [128, 130]
