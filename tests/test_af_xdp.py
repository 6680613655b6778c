"""AF_XDP: interfaces of the host whose packets pass its network stack by. Other files test what all drivers share."""

import os
import pathlib
import re
import subprocess
from socket import SOCK_DGRAM

import pytest
import scapy.all as scapy

from conftest import require
from lab import CommandFailed, wait_until
from test_transport import transfer
from test_workers import TWO, flows_arrive, iperf, vectors_by_thread

# As operators' programs are compiled; maps are described in the debug information.
COMPILE = ("clang", "-target", "bpf", "-O2", "-g", "-c")
HERE = pathlib.Path(__file__).resolve().parent


def wire(router, host, name, queues=1, address=None):
    """A veth from a host's `eth0` to the router's `to-NAME`, which nobody has taken yet."""
    wide = ("numtxqueues", queues, "numrxqueues", queues)
    host.ip(
        "link",
        "add",
        "eth0",
        *wide,
        "type",
        "veth",
        "peer",
        "name",
        f"to-{name}",
        *wide,
        "netns",
        router.host.namespace,
    )
    if address:
        host.ip("address", "add", address, "dev", "eth0")
    host.ip("link", "set", "eth0", "up")


def hardware(router, name):
    return router.cli_json(f"show hardware-interfaces {name}")["interfaces"][0]


def details(router, name):
    return "\n".join(hardware(router, name)["details"])


def logged(router, text):
    return [line for line in router.log().splitlines() if text in line]


UNFINISHED = "TCP and UDP checksums come unfinished"


def test_unfinished_checksums_are_finished_and_explained(lab):
    require("ethtool")
    router, h1, h2 = lab.two_hosts("af_xdp")
    assert h1.reaches("10.0.2.2")
    assert logged(router, UNFINISHED) == []
    data = os.urandom(3_000_000)
    assert transfer(h1, h2, "10.0.2.2", data) == data
    assert transfer(h2, h1, "10.0.1.2", data) == data
    assert h1.counter("TcpInCsumErrors") == h2.counter("TcpInCsumErrors") == 0
    wait_until(lambda: len(logged(router, UNFINISHED)) == 2, "it is said of both interfaces")
    said = logged(router, UNFINISHED)[0]
    assert "ethtool -K DEVICE tx off" in said and " warn " in said, said
    assert "frames with unfinished checksums: " in details(router, "e0")
    # Whoever does as was said is troubled no more.
    for host in (h1, h2):
        host.run("ethtool", "-K", "eth0", "tx", "off")
    count = details(router, "e0")
    sender, receiver = h1.socket(SOCK_DGRAM), h2.socket(SOCK_DGRAM, ("10.0.2.2", 4000))
    for _ in range(20):
        sender.sendto(b"finished", ("10.0.2.2", 4000))
        assert receiver.recv(100) == b"finished"
    assert re.findall("checksums: [0-9]+", details(router, "e0")) == re.findall("checksums: [0-9]+", count)
    assert h2.counter("UdpInCsumErrors") == 0


def test_finished_checksums_are_left_alone(lab):
    require("ethtool")
    router, h1, h2 = lab.two_hosts("af_xdp")
    for host in (h1, h2):
        host.run("ethtool", "-K", "eth0", "tx", "off")
    data = os.urandom(3_000_000)
    assert transfer(h1, h2, "10.0.2.2", data) == data
    assert "checksums" not in details(router, "e0")
    assert logged(router, UNFINISHED) == [] and router.errors().get("checksums finished", 0) == 0


def test_unfinished_checksums_of_ip6_are_finished(lab):
    router, h1, h2 = lab.two_hosts6("af_xdp")
    data = os.urandom(1_000_000)
    assert transfer(h1, h2, "2001:db8:2::2", data) == data
    assert h1.counter("TcpInCsumErrors") == h2.counter("TcpInCsumErrors") == 0
    assert "frames with unfinished checksums: " in details(router, "e0")


def test_iperf3_fills_it_both_ways(lab):
    require("iperf3")
    router, h1, h2 = lab.two_hosts("af_xdp", extra=TWO, queues=2)
    for direction in ([], ["--reverse"]):
        end = iperf(h2, h1, "--bytes", "200M", *direction)
        assert end["sum_received"]["bytes"] > 190_000_000
    assert router.errors().get("device has no room", 0) == 0


@pytest.mark.parametrize("queues", [1, 3])
def test_jumbo_frames_lie_in_several_buffers_on_all_queues(lab, queues):
    router, h1, h2 = lab.two_hosts("af_xdp", queues=queues)
    for name in ("e0", "e1"):
        router.cli(f"set interface mtu 9000 {name}")
        shown = details(router, name)
        assert f"copy, multi-buffer, {queues} of {queues} receive queues have a socket" in shown, shown
    for host in (h1, h2):
        host.ip("link", "set", "eth0", "mtu", 9000)
    # Flows of many ports: every queue brings some.
    for port in range(5001, 5033):
        sender, receiver = h1.socket(SOCK_DGRAM, ("10.0.1.2", port)), h2.socket(SOCK_DGRAM, ("10.0.2.2", port))
        for size in (1, 2006, 2007, 2048, 4054, 8972):
            data = os.urandom(size)
            sender.sendto(data, ("10.0.2.2", port))
            assert receiver.recv(10000) == data
    data = os.urandom(20_000_000)
    assert transfer(h1, h2, "10.0.2.2", data) == data


def test_a_queue_without_a_socket_is_reported_and_its_frames_counted(lab):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0", queues=4, address="10.0.1.2/24")
    router.cli("create interface af_xdp host-if to-e0 name e0")
    said = logged(router, "to-e0 has 4 receive queues, and sockets on 1 of them")
    assert len(said) == 1 and "'num-rx-queues all'" in said[0] and "'ethtool -L to-e0 rx 1'" in said[0], said
    router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
    assert "1 of 4 receive queues have a socket" in details(router, "e0")
    h1.ip("neigh", "add", "10.0.1.1", "lladdr", hardware(router, "e0")["mac"], "dev", "eth0")
    # By their ports flows come by all queues.
    for port in range(2000, 2064):
        h1.socket(SOCK_DGRAM, ("10.0.1.2", port)).sendto(b"x", ("10.0.1.1", 9))

    def astray():
        found = re.search("frames by queues without a socket, that went to the host: ([0-9]+)", details(router, "e0"))
        return int(found[1]) if found else 0

    wait_until(lambda: astray() > 10, "some went to the host")
    came = router.counters("e0")["rx_packets"]
    assert came > 0 and came + astray() >= 64
    wait_until(lambda: len(logged(router, "frames come by queues that have no socket")) == 1, "it is said once")
    # All of them:
    router.cli("delete interface e0")
    router.cli("create interface af_xdp host-if to-e0 num-rx-queues all name e0")
    router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
    h1.ip("neigh", "replace", "10.0.1.1", "lladdr", hardware(router, "e0")["mac"], "dev", "eth0")
    assert "4 of 4 receive queues have a socket" in details(router, "e0")
    for port in range(2000, 2064):
        h1.socket(SOCK_DGRAM, ("10.0.1.2", port)).sendto(b"x", ("10.0.1.1", 9))
    wait_until(lambda: router.counters("e0")["rx_packets"] >= 64, "all come")
    assert astray() == 0
    assert len(router.cli_json("show interface rx-placement")["queues"]) == 4


def test_without_a_driver_that_helps_the_kernel_does_it_all_and_the_log_says_why(lab):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0", address="10.0.1.2/24")
    router.host.ip("link", "add", "br0", "type", "bridge")
    router.host.ip("link", "set", "to-e0", "master", "br0", "up")
    router.host.ip("link", "set", "br0", "up")
    router.cli("create interface af_xdp host-if br0 name e0")
    router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
    said = logged(router, "host interface br0 is served as 'generic'")
    assert len(said) == 1 and "zero-copy: " in said[0] and "copy: attaching the XDP program: " in said[0], said
    assert "served: generic" in details(router, "e0")
    wait_until(lambda: h1.reaches("10.0.1.1", count=1), "the bridge forwards")


def test_zero_copy_that_cannot_be_is_refused_and_copying_can_be_asked_for(lab):
    router, h1 = lab.router(extra="buffers { page-size 4k }"), lab.host("h1")
    wire(router, h1, "e0", address="10.0.1.2/24")
    with pytest.raises(
        CommandFailed, match="'to-e0' cannot be served: zero-copy: packet buffers do not lie on huge pages"
    ):
        router.cli("create interface af_xdp host-if to-e0 zero-copy name e0")
    assert "xdp" not in router.host.ip("link", "show", "to-e0")
    router.cli("create interface af_xdp host-if to-e0 no-zero-copy name e0")
    assert "served: copy" in details(router, "e0") and logged(router, "is served as") == []
    assert " no-zero-copy name e0\n" in router.cli("show running-config")


def test_the_program_goes_with_the_interface_and_with_the_process(lab):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0", address="10.0.1.2/24")

    def has_program():
        return "xdp" in router.host.ip("link", "show", "to-e0")

    for _ in range(3):
        router.cli("create interface af_xdp host-if to-e0 name e0")
        assert has_program()
        with pytest.raises(CommandFailed, match="to-e0"):
            router.cli("create interface af_xdp host-if to-e0 name e1")
        router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
        assert h1.reaches("10.0.1.1", count=2)
        router.cli("delete interface af_xdp e0")
        wait_until(lambda: not has_program(), "the interface is the host's again")
    router.cli("create interface af_xdp host-if to-e0 name e0")
    router.kill()
    wait_until(lambda: not has_program(), "the interface is the host's again")


def test_an_interface_that_has_a_program_already_is_refused_by_name(lab):
    a, b, h1 = lab.router(), lab.router(), lab.host("h1")
    wire(a, h1, "e0")
    a.cli("create interface af_xdp host-if to-e0 name e0")
    with pytest.raises(
        CommandFailed, match=r"attaching the XDP program \(it has one already: 'ip link show' names it\)"
    ):
        b.cli(f"create interface af_xdp host-if to-e0 netns {a.host.namespace} name e0")


def test_an_interface_in_another_namespace(lab):
    router, h1 = lab.router(), lab.host("h1")
    there = lab.host("there")
    h1.ip("link", "add", "eth0", "type", "veth", "peer", "name", "port", "netns", there.namespace)
    h1.ip("address", "add", "10.0.1.2/24", "dev", "eth0")
    h1.ip("link", "set", "eth0", "up")
    router.cli(f"create interface af_xdp host-if port netns {there.namespace} mac-reuse name e0")
    router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
    assert hardware(router, "e0")["mac"] == there.mac("port")
    assert h1.reaches("10.0.1.1", count=3)
    assert f"host interface port in namespace {there.namespace}" in router.cli("show hardware-interfaces")


def test_busy_polling_needs_nobody_else(lab):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0", address="10.0.1.2/24")
    router.cli("create interface af_xdp host-if to-e0 busy-poll-usecs 20 busy-poll-budget 128 name e0")
    router.batch(
        "set interface ip address e0 10.0.1.1/24\nset interface state e0 up\nset interface rx-mode e0 polling\n"
    )
    assert "busy-poll" in details(router, "e0")
    assert h1.reaches("10.0.1.1", count=10, interval=0.02)


@pytest.fixture
def program(tmp_path):
    """An operator's program, compiled."""
    require("clang")
    file = tmp_path / "redirect.o"
    subprocess.run([*COMPILE, HERE / "redirect.c", "-o", file], check=True)
    return file


def test_an_operators_program_decides_what_comes(lab, program):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0", address="10.0.1.2/24")
    router.cli(f"create interface af_xdp host-if to-e0 prog {program} name e0")
    router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
    assert h1.reaches("10.0.1.1", count=3)
    ear = router.host.frames("to-e0")
    before = router.counters("e0")["rx_packets"]
    frame = scapy.Ether(src=h1.mac(), dst="ff:ff:ff:ff:ff:ff", type=0x88B5) / b"for the host"
    h1.frames().send(bytes(frame))
    while ear.recv(2048) != bytes(frame):
        pass
    assert router.counters("e0")["rx_packets"] == before
    assert f" prog {program} name e0\n" in router.cli("show running-config")


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        (b"", "no object file with BPF code"),
        (b"\x7fELF" + bytes(60), "no object file with BPF code"),
        (None, "No such file"),
        ("/dev/zero", "expected a file of at most 16 MiB"),
        ("/bin/true", "no object file with BPF code|should have one"),
    ],
)
def test_what_is_no_program_is_refused(lab, tmp_path, content, answer):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0")
    file = content if isinstance(content, str) else tmp_path / "file.o"
    if isinstance(content, bytes):
        file.write_bytes(content)
    with pytest.raises(CommandFailed, match=answer):
        router.cli(f"create interface af_xdp host-if to-e0 prog {file} name e0")
    assert "xdp" not in router.host.ip("link", "show", "to-e0")


def test_a_program_that_the_kernel_refuses_is_explained(lab, program, tmp_path):
    source = (HERE / "redirect.c").read_text().replace("if (data + 14 > end)", "if (0)")
    (tmp_path / "bad.c").write_text(source)
    file = tmp_path / "bad.o"
    subprocess.run([*COMPILE, tmp_path / "bad.c", "-o", file], check=True)
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0")
    with pytest.raises(CommandFailed, match="loading the XDP program .*invalid access to packet"):
        router.cli(f"create interface af_xdp host-if to-e0 prog {file} name e0")


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("host-if nowhere", "host interface 'nowhere': No such device"),
        ("host-if to-e0 num-rx-queues 3", "host interface 'to-e0' has 1 receive queue, not 3"),
        ("host-if to-e0 num-rx-queues 65", "number 1..64"),
        ("host-if to-e0 rx-queue-size 1000", "rx-queue-size 1000: expected a power of two"),
        ("host-if to-e0 tx-queue-size 32", "number 64..16384"),
        ("host-if to-e0 rx-queue-size 16384", "more than half of the 16384 that there are: a smaller 'rx-queue-size'"),
        ("host-if to-e0 netns nowhere", "network namespace /var/run/netns/nowhere: No such file"),
        ("host-if to-e0 busy-poll-budget 64", "it takes busy-poll-usecs"),
        ("host-if to-e0 zero-copy no-zero-copy", "no-zero-copy"),
        ("name e0", "host-if"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(lab, words, answer):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0")
    with pytest.raises(CommandFailed, match=answer):
        router.cli(f"create interface af_xdp {words}")
    assert "xdp" not in router.host.ip("link", "show", "to-e0")
    assert "af_xdp" not in router.cli("show running-config")
    router.cli("create interface af_xdp host-if to-e0")
    assert "to-e0/0" in router.cli("show interface")


def test_what_is_said_of_it_is_saved_and_loaded(lab, tmp_path):
    router, h1 = lab.router(), lab.host("h1")
    wire(router, h1, "e0", queues=2, address="10.0.1.2/24")
    line = (
        "create interface af_xdp host-if to-e0 num-rx-queues all rx-queue-size 512 tx-queue-size 256 no-zero-copy "
        "busy-poll-usecs 30 no-syscall-lock hw-addr 02:00:00:00:00:71 name e0\n"
    )
    router.cli(line.strip())
    router.batch("set interface ip address e0 10.0.1.1/24\nset interface state e0 up\n")
    assert line in router.cli("show running-config")
    file = tmp_path / "saved"
    router.cli(f"save {file}")
    router.cli("delete interface e0")
    router.cli(f"load {file}")
    assert line in router.cli("show running-config")
    assert h1.reaches("10.0.1.1", count=3)


def test_flows_cross_from_af_xdp_to_others_and_back(lab):
    """Buffers that one device received into are sent by another, whatever its driver."""
    router = lab.router(extra=TWO)
    h1, h2 = lab.host("h1"), lab.host("h2")
    router.attach(h1, "e0", "af_xdp", "10.0.1.2/24", queues=2)
    router.attach(h2, "e1", "tap", "10.0.2.2/24", queues=2)
    for number, host in ((1, h1), (2, h2)):
        router.batch(
            f"set interface ip address e{number - 1} 10.0.{number}.1/24\nset interface state e{number - 1} up\n"
        )
        host.ip("route", "add", "default", "via", f"10.0.{number}.1")
    wait_until(lambda: h1.reaches("10.0.2.2", count=1), "the way is walked")
    flows_arrive(h2, h1, seconds=2)
    data = os.urandom(5_000_000)
    assert transfer(h1, h2, "10.0.2.2", data) == data
    assert transfer(h2, h1, "10.0.1.2", data) == data
    assert min(vectors_by_thread(router, "af_xdp-input")) > 500


def test_a_host_that_goes_takes_no_buffers_along(lab):
    router, h1, h2 = lab.two_hosts("af_xdp")
    assert h1.reaches("10.0.2.2")
    h2.ip("link", "set", "eth0", "down")
    wait_until(lambda: hardware(router, "e1")["link"] == "down", "its link is down")
    h1.ping("10.0.2.2", count=5)
    h2.ip("link", "set", "eth0", "up")
    h2.ip("route", "add", "default", "via", "10.0.2.1", check=False)
    wait_until(lambda: h1.reaches("10.0.2.2", count=1), "it is back")
    h2.ip("link", "delete", "eth0")
    wait_until(lambda: hardware(router, "e1")["link"] == "down", "it is gone")
    h1.ping("10.0.2.2", count=3)
    router.cli("delete interface e1")
    wait_until(
        lambda: (lambda pool: pool["used"] == pool["lent"] <= 1030)(router.cli_json("show buffers")),
        "its buffers are back",
    )
