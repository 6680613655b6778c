"""Commands as operators type them."""

import os
import re
import socket
import subprocess
import time

import pytest

from lab import CommandFailed, QUIVER, run

VPP_SOCKET = "/run/vpp/cli.sock"


def test_the_config_of_a_small_router_works_as_published(lab):
    """Commands from the article on small hardware, word by word."""
    router = lab.router()
    h1 = lab.host("h1")
    router.attach(h1, "e0", "af_packet", "100.64.1.2/30")
    h1.ip("link", "set", "eth0", "address", "50:7c:6f:20:30:70")
    for command in (
        "set int state e0 up",
        "set int ip address e0 100.64.1.1/30",
        "ip route add 16.0.0.0/24 via 100.64.1.2",
        "ip neighbor e0 100.64.1.2 50:7c:6f:20:30:70",
    ):
        assert router.cli(command) == ""
    assert router.cli("show int addr") == "e0 (up):\n  L3 100.64.1.1/30\n"
    assert "ipv4 via 100.64.1.2 e0: mtu:1500 next:" in router.cli("show ip fib 16.0.0.9")
    assert router.neighbours()["100.64.1.2"]["flags"] == "S"
    h1.ip("address", "add", "16.0.0.9/32", "dev", "lo")
    h1.ip("route", "add", "default", "via", "100.64.1.1")
    assert h1.reaches("100.64.1.1")
    # The answer finds the routed network behind the host.
    assert h1.reaches("100.64.1.1", "-I", "16.0.0.9")


def test_unambiguous_abbreviations_are_understood(lab):
    router, _, _ = lab.two_hosts("tap")
    assert router.cli("sh int") == router.cli("show interface")
    assert router.cli("sh int addr") == router.cli("show interface address")
    assert router.cli("sh ver") == router.cli("show version")
    router.cli("set int st e0 down")
    assert router.interface("e0")["state"] == "down"
    with pytest.raises(CommandFailed, match="ambiguous command 's'"):
        router.cli("s int")


def test_unknown_words_are_named_with_what_could_be_meant(lab):
    router, _, _ = lab.two_hosts("tap")
    for command, answer in (
        ("bogus", "unknown input 'bogus'"),
        ("show bogus", "show: unknown input 'bogus'"),
        ("show", "incomplete command"),
        ("set int state e0 sideways", "unknown input 'sideways'"),
        ("set int state e9 up", "no interface named 'e9'"),
        ("set int ip address e0 10.0.0.256/24", "10.0.0.256/24"),
        ("ip neighbor e0 10.0.1.9 nonsense", "bad value 'nonsense'"),
        ("create tap name e0", "an interface named 'e0' exists already"),
        ("create host-interface absent0 name e9", "absent0"),
        ("set interface name e0 e1", "'e1' exists already"),
        ("trace add ip4-lookup 5", "'ip4-lookup' is not an input node"),
    ):
        with pytest.raises(CommandFailed, match=re.escape(answer)):
            router.cli(command)


def test_a_failed_command_ends_with_code_one_and_a_good_one_with_zero(lab):
    router = lab.router()
    base = [QUIVER, "cli", "--socket", router.socket]
    good, bad = run(*base, "show", "version"), run(*base, "bogus", check=False)
    assert (good.returncode, good.stderr) == (0, "")
    assert (bad.returncode, bad.stdout) == (1, "") and "bogus" in bad.stderr


def test_without_a_router_the_client_says_so(tmp_path):
    done = run(QUIVER, "cli", "--socket", tmp_path / "nobody.sock", "show", "version", check=False)
    assert done.returncode == 1
    assert f"no router answers on {tmp_path}/nobody.sock" in done.stderr


def test_commands_come_from_standard_input_too(lab):
    router = lab.router()
    answer = router.batch("create null interface name n0\n\nset int state n0 up\nshow interface address\n")
    assert "n0 (up):" in answer
    with pytest.raises(CommandFailed, match="line 2"):
        router.batch("show version\nbogus\nshow version\n")


def test_an_interface_can_be_named_when_made_and_renamed(lab, driver):
    router = lab.router()
    h1 = lab.host("h1")
    router.attach(h1, "wan", driver, "10.0.1.2/24")
    router.cli("set interface name wan uplink")
    assert "uplink" in router.cli("show interface") and "wan" not in router.cli("show interface")
    router.cli("set interface ip address uplink 10.0.1.1/24")
    router.cli("set interface state uplink up")
    assert h1.reaches("10.0.1.1")
    with pytest.raises(CommandFailed, match="no interface named 'wan'"):
        router.cli("set interface state wan up")
    router.cli("create null interface name wan")  # the name is free again


def test_json_and_text_tell_the_same(lab):
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.2.2")
    for known in router.cli_json("show interface")["interfaces"]:
        assert f"rx packets{known['counters']['rx_packets']:>22}" in router.cli(f"show interface {known['name']}")


@pytest.fixture
def in_run_of_its_own(tmp_path):
    """`quiver` with a /run/vpp that no other test's router sees."""
    hold = "mkdir -p /run/vpp && mount -t tmpfs none /run/vpp && echo there && exec sleep 600"
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", hold]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "there\n"
        program = tmp_path / "quiver"
        program.write_text(f'#!/bin/sh\nexec nsenter --mount=/proc/{holder.pid}/ns/mnt {QUIVER} "$@"\n')
        program.chmod(0o755)
        yield program
        holder.kill()


def test_vpps_own_client_finds_the_router(lab, in_run_of_its_own):
    """`vppctl` looks at /run/vpp/cli.sock; Quiver listens there when nobody else does."""
    quiver = in_run_of_its_own

    def serves(router):
        shown = run(quiver, "cli", "--socket", VPP_SOCKET, "show", "version", "verbose", check=False).stdout
        return f"Current PID:              {router.process.pid}\n" in shown

    first = lab.router(binary=quiver)
    assert serves(first)
    second = lab.router(binary=quiver)
    assert serves(first), "the second took the first one's socket"
    second.stop()
    assert serves(first)
    first.stop()
    assert not serves(first) and not serves(second)


def test_a_client_that_leaves_is_no_news(lab):
    """Neither a client that is done nor one that leaves before or within its answer is logged, at any level."""
    router = lab.router(extra="logging { default-syslog-log-level debug }\n")
    router.batch("".join(f"create null interface name n{at}\n" for at in range(200)))
    before = router.log()
    for words, seconds in (("show version", 0.2), ("show interface", 0), ("show interface", 0.05), ("", 0)):
        for _ in range(5):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(router.socket))
                client.sendall(words.encode() + b"\n")
                time.sleep(seconds)
    run(QUIVER, "cli", "-s", router.socket, "show", "version")
    assert "connection" not in router.log()[len(before) :].lower()


def test_many_clients_at_once_are_served(lab):
    router, _, _ = lab.two_hosts("tap")
    command = [QUIVER, "cli", "--socket", router.socket, "show", "interface"]
    clients = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(20)]
    answers = {client.communicate(timeout=20)[0] for client in clients}
    assert len(answers) == 1 and "e1" in answers.pop()


SCRIPT = """\
comment {
  not yet:
  set interface state n0 down
}
create null interface name n0   # the way out
define WAN n0
set interface state \\
    $(WAN) up # {
create packet-generator interface pg0
packet-generator new { \\
  name one \\
  limit 1 \\
  size 64-64 \\
  interface pg0 \\
  node ethernet-input \\
  data { \\
    IP4: 02:00:00:00:00:0a -> 02:00:00:00:00:01 \\
    UDP: 198.51.100.2 -> 203.0.113.9 \\
    UDP: 4000 -> 9 \\
    incrementing 22 \\
  } \\
}
"""


def check_script(router):
    assert "n0 (up):" in router.cli("show interface address")
    assert "one" in router.cli("show packet-generator")


@pytest.mark.parametrize("door", ["-f FILE", "standard input", "exec FILE", "at start", "vppctl", "load FILE"])
def test_lines_are_read_alike_at_every_door(lab, tmp_path, door):
    script = tmp_path / "script.cli"
    script.write_text(SCRIPT)
    router = lab.router(SCRIPT if door == "at start" else "")
    if door == "-f FILE":
        run(QUIVER, "cli", "-s", router.socket, "-f", script)
    elif door == "standard input":
        router.batch(SCRIPT)
    elif door == "vppctl":
        link = tmp_path / "vppctl"
        link.symlink_to(QUIVER)
        subprocess.run([link, "-s", router.socket], input=SCRIPT, text=True, check=True)
    elif door != "at start":
        router.cli(door.replace("FILE", str(script)))
    check_script(router)
    # The macros of a file that is loaded are its own; all others are shared.
    assert router.cli("show macro").split() == ([] if door == "load FILE" else ["WAN", "n0"])


def test_a_macro_is_defined_for_all_sessions_and_forgotten(lab):
    router = lab.router("create null interface name n0\n")
    router.cli("define IF n0")
    assert router.cli("show interface $(IF)") == router.cli("show interface n0")
    router.cli("undefine IF")
    with pytest.raises(CommandFailed, match="no macro 'IF'"):
        router.cli("show interface $(IF)")
    with pytest.raises(CommandFailed, match="the last line ends in"):
        router.cli("show version \\")


SPELLINGS = """\
create loopback interface
create tap id 0 name e0 host-if-name t0 num-tx-queues 2 rx-ring-size 256 no-gso
set int state e0 up
set int ip address e0 10.0.0.1/24
ip table add 7
loop create
ip route 172.16.23.0/24 via 10.0.0.2 e0
ip route add 172.16.24.0/24 table 7 via 10.0.0.2 e0
ip route add 172.16.25.0/24 via 10.0.0.2 e0 resolve-via-attached
ip route 172.16.26.0/24 count 2 via 10.0.0.3 e0
set ip neighbor e0 10.0.0.2 dead.beef.babe
set ip arp e0 10.0.0.3 2:2:3:4:5:6
ip table 8
mpls table 0
set interface ip source-check e0 loose
packet-generator new { name s0 limit -1 size 64-64 node ip4-input data {
  UDP: 10.0.0.9 -> 172.16.23.1 UDP: 1 -> 2 hex 0xcafe } }
"""


def test_spellings_of_vpp_state_the_same(lab):
    router = lab.router()
    router.batch(SPELLINGS)
    stated = router.cli("show running-config")
    for line in (
        "create loopback interface instance 1",
        "ip route add 172.16.23.0/24 via 10.0.0.2 e0",
        "ip route add table 7 172.16.24.0/24 via 10.0.0.2 e0",
        "ip route add 172.16.25.0/24 via 10.0.0.2 e0",
        "ip route add 172.16.27.0/24 via 10.0.0.3 e0",
        "e0 10.0.0.2 de:ad:be:ef:ba:be",
        "e0 10.0.0.3 02:02:03:04:05:06",
        "ip table add 8",
        "mpls table add 0",
        "set urpf ip4 rx loose e0",
        "create packet-generator interface pg-s0",
        "set interface state pg-s0 up",
        "limit 0",
    ):
        assert line in stated, line
    assert router.cli("show fib memory") == router.cli("show ip fib memory")
    assert router.cli("show adj nbr e0") == router.cli("show adj e0")
    assert "02:02:03:04:05:06 e0" in router.cli("show ip arp")
    assert "command line" in router.cli("show version verbose cmdline").lower()
    assert router.cli("clear hardware-interfaces") == ""
    router.cli("loopback delete-interface intfc loop1")
    router.cli("show clock verbose")
    # What was saved is read again, and says the same.
    saved = router.config.parent / "saved.cli"
    router.cli(f"save {saved}")
    assert router.cli(f"load {saved} dry-run") == "no difference\n"


@pytest.mark.parametrize(
    "line, reason",
    [
        ("ip route 10.9.0.0/16 via 10.0.0.2 resolve-via-host", "name the interface"),
        ("create tap id 5 persist", "persist: not in this version; a TAP goes with the router"),
        ("create tap id 5 tun", "tun: not in this version"),
        ("nat44 plugin enable sessions 1000", "nat44: not in this version; 'ip punt redirect'"),
        ("create bond mode lacp", "create bond: not in this version; let the kernel bond"),
        ("ip route 10.9.0.0/16 vai 10.0.0.2", "unknown input 'vai'"),
    ],
)
def test_what_of_vpp_is_not_here_is_refused_with_a_reason(lab, line, reason):
    router = lab.router()
    with pytest.raises(CommandFailed) as refused:
        router.cli(line)
    assert reason in str(refused.value)


def test_a_question_at_the_empty_prompt_lists_first_words(lab):
    rows = lab.router().cli("?").splitlines()
    words = [row.split()[0] for row in rows]
    assert words == sorted(set(words)) and {"set", "show", "ip", "quit"} <= set(words) and len(words) < 40
    assert all(len(row.split()) > 1 for row in rows)
