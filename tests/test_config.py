"""Configuration that lasts: over restarts, crashes and mistakes."""

import random
import re
import subprocess
import time

import pytest

from lab import CommandFailed, QUIVER, wait_until

SETUP = """
create null interface name n0
set interface ip address n0 10.0.9.1/24
set interface state n0 up
ip neighbor n0 10.0.9.2 02:00:00:00:00:02
ip route add 192.0.2.0/24 via 10.0.9.2
"""


def test_what_was_saved_is_there_after_a_restart_and_what_was_learned_is_not(lab):
    router = lab.router(unix="startup-config DIR/saved.cli")
    h1 = lab.host("h1")
    router.attach(h1, "e0", "tap", "10.0.1.2/24")
    for line in ("set int ip address e0 10.0.1.1/24", "set int state e0 up", "set int mtu packet 1400 e0"):
        router.cli(line)
    router.batch(SETUP)
    assert h1.reaches("10.0.1.1")
    assert router.neighbours()["10.0.1.2"]["flags"] == "D"
    text = router.cli("show running-config")
    assert "10.0.1.2 " not in text, "a learned neighbour is no configuration"
    assert re.search(r"saved.cli: \d+ commands saved", router.cli("save"))
    router.stop()
    h1.ip("link", "delete", "eth0", check=False)
    router.start()
    assert router.cli("show running-config") == text
    assert router.cli(f"load {router.directory}/saved.cli dry-run") == "no difference\n"
    h1.ip("address", "replace", "10.0.1.2/24", "dev", "eth0")
    assert h1.reaches("10.0.1.1")


def test_the_saved_file_takes_the_place_of_exec(lab):
    router = lab.router("create null interface name first\n", unix="startup-config DIR/saved.cli")
    router.cli("set interface name first second")
    router.cli("save")
    router.stop()
    router.start()
    assert router.cli("show running-config") == "create null interface name second\n"


def test_a_device_that_is_gone_does_not_keep_the_others_from_coming_up(lab):
    router = lab.router(unix="startup-config DIR/saved.cli")
    router.stop()
    saved = router.directory / "saved.cli"
    saved.write_text("create host-interface absent0 name e0\nset interface state e0 up\n" + SETUP)
    router.start()
    assert "n0 (up):\n  L3 10.0.9.1/24" in router.cli("show interface address")
    assert f"{saved}:1: create host-interface: " in router.log()
    with pytest.raises(CommandFailed, match="2 commands of .*saved.cli failed at start and would be lost"):
        router.cli("save")
    assert "absent0" in saved.read_text()
    router.cli("save force")
    assert "absent0" not in saved.read_text()


@pytest.mark.slow
def test_a_save_that_is_killed_leaves_the_old_file_or_the_new_one(lab):
    """The process is killed at random moments of a save of 20,000 routes."""
    router = lab.router(unix="startup-config DIR/saved.cli")
    chance = random.Random(5)
    routes = "".join(f"ip route add 20.{i >> 8}.{i & 255}.0/24 via 10.0.9.2\n" for i in range(20_000))
    big = router.directory / "big.cli"
    big.write_text(SETUP + routes)
    router.cli(f"load {big}")
    begun = time.monotonic()
    router.cli("save")
    # However fast the machine is, some saves are done by then and some are not.
    longest = 1.5 * (time.monotonic() - begun)
    saved = router.directory / "saved.cli"
    marks, outcomes = 0, set()
    for attempt in range(25):
        before = saved.read_text()
        # Each attempt is told apart by a route of its own.
        router.cli(f"ip route add 30.0.{attempt}.0/24 via drop")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        saver = subprocess.Popen([QUIVER, "cli", "-s", router.socket, "save"], **quiet)
        time.sleep(chance.uniform(0, longest))
        router.kill()
        saver.wait(timeout=30)
        after = saved.read_text()
        is_new = f"ip route add 30.0.{attempt}.0/24 via drop\n" in after
        outcomes.add(is_new)
        marks += is_new
        assert is_new or after == before
        assert after.endswith("\n") and after.count("ip route add 20.") == 20_000
        router.start()
        assert after.count("ip route add") == router.cli("show running-config").count("ip route add")
        assert "failed" not in router.log()
    assert outcomes == {True, False}, f"{marks} of 25 saves were done: the moments were all alike"
    names = {path.name for path in router.directory.iterdir()}
    router.cli("save")
    assert ".saved.cli.new" not in {path.name for path in router.directory.iterdir()}, names


def twenty_thousand_commands():
    """Commands of many kinds, in an order of chance, with some of what they make deleted and made again."""
    chance = random.Random(20_000)
    interfaces, routes, neighbours = [], [], []
    for at in range(300):
        interfaces += [
            f"create null interface name n{at}",
            f"set interface ip address n{at} 10.{at // 256}.{at % 256}.1/24",
            f"set interface ip address n{at} 2001:db8:{at:x}::1/64",
            f"set interface state n{at} up",
        ]
    interfaces += [f"create sub-interfaces n{at % 300} {at // 300 + 5}" for at in range(900)]
    for at in range(8000):
        via = chance.randrange(300)
        routes.append(f"ip route add 20.{at // 256}.{at % 256}.0/24 via 10.{via // 256}.{via % 256}.2 n{via}")
        routes.append(f"ip route add 2001:db9:{at:x}::/48 via 2001:db8:{via:x}::2 n{via}")
    for at in range(3000):
        of = at % 300
        address, mac = f"10.{of // 256}.{of % 256}.{at // 300 + 2}", f"02:00:00:00:{at // 256:02x}:{at % 256:02x}"
        neighbours.append(f"ip neighbor n{of} {address} {mac}")
    rest = routes + neighbours
    chance.shuffle(rest)
    again = chance.sample(rest, 1500)
    undone = [line.replace("ip route add", "ip route del").replace("ip neighbor", "ip neighbor del") for line in again]
    chance.shuffle(again)
    return interfaces + rest + undone + again


@pytest.mark.slow
def test_twenty_thousand_commands_are_the_same_in_the_same_order_after_every_crash(lab):
    router = lab.router(unix="startup-config DIR/saved.cli")
    commands = twenty_thousand_commands()
    assert len(commands) > 20_000
    router.batch("\n".join(commands))
    saved = router.directory / "saved.cli"
    router.cli("save")
    first = saved.read_text()
    assert first.count("\n") > 20_000
    for _ in range(3):
        router.kill()
        router.start()
        router.cli("save")
        # Not compared by assert: it would take minutes to draw the difference.
        now = saved.read_text()
        differ = [pair for pair in zip(first.splitlines(), now.splitlines()) if pair[0] != pair[1]][:3]
        assert (differ, len(now)) == ([], len(first))


def test_a_load_that_cuts_the_operator_off_goes_back_by_itself(lab):
    router, h1, h2 = lab.two_hosts("tap")
    before = router.cli("show running-config")
    wrong = router.directory / "wrong.cli"
    wrong.write_text(before.replace("10.0.2.1/24", "10.0.3.1/24"))
    assert h1.reaches("10.0.2.2")
    answer = router.cli(f"load {wrong} confirm 1")
    assert answer.startswith("- set interface ip address e1 10.0.2.1/24\n+ set interface ip address e1 10.0.3.1/24\n")
    assert not h1.reaches("10.0.2.2", count=1, wait=1)
    wait_until(lambda: router.cli("show running-config") == before, "the old configuration is back")
    assert h1.reaches("10.0.2.2")
    assert "was not confirmed" in router.log()


def test_a_device_is_made_anew_under_its_name_on_the_host(lab):
    """The old one has to be closed by then, which its worker does."""
    router = lab.router()
    file = router.directory / "tap.cli"
    for number in range(40):
        tap = f"create tap id {7 + number % 3} name e0 host-if-name again0 host-mtu-size {1300 + number % 2}\n"
        file.write_text(tap)
        router.cli(f"load {file}")
        assert router.cli("show running-config") == tap
    for _ in range(40):
        router.batch("delete interface e0\ncreate tap id 7 name e0 host-if-name again0\n")


def test_a_tap_takes_the_number_of_another(lab):
    router = lab.router()
    router.cli("create tap id 5 name e0 host-if-name one0")
    file = router.directory / "tap.cli"
    file.write_text("create tap id 5 name e1 host-if-name two0\n")
    router.cli(f"load {file}")
    assert router.cli("show running-config") == file.read_text()


def test_a_wrong_file_is_named_with_its_line_and_traffic_does_not_notice(lab):
    router, h1, h2 = lab.two_hosts("tap")
    before = router.cli("show running-config")
    wrong = router.directory / "wrong.cli"
    wrong.write_text("delete interface e1\nset interface mtu 40 e0\n")
    assert h1.reaches("10.0.2.2")
    with pytest.raises(CommandFailed, match=re.escape(f"load: {wrong}:1: delete interface: no interface named 'e1'")):
        router.cli(f"load {wrong}")
    lines = before.splitlines()
    wrong.write_text("\n".join(lines[:3] + ["set interface mtu 40 e0"] + lines[3:]))
    with pytest.raises(CommandFailed, match=re.escape(f"load: {wrong}:4: set interface mtu: ")):
        router.cli(f"load {wrong}")
    assert router.cli("show running-config") == before
    assert h1.reaches("10.0.2.2")


def test_files_can_be_confined_to_one_directory(lab, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    router = lab.router(unix=f"cli-file-root {files} startup-config DIR/saved.cli")
    (files / "good").write_text("create null interface name n0\n")
    outside = router.directory / "outside"
    outside.write_text("create null interface name n1\n")
    router.cli("exec good")
    router.cli("save copy")
    assert "create null interface name n0\n" in (files / "copy").read_text()
    # What the program's own configuration names is not an operator's choice.
    router.cli("save")
    for line in (f"exec {outside}", "exec ../outside", f"load {outside}", "save ../escaped", f"save {outside}"):
        with pytest.raises(CommandFailed, match="outside of .*/files, where commands may use files"):
            router.cli(line)
    assert outside.read_text() == "create null interface name n1\n"
    assert "n1" not in router.cli("show interface")
