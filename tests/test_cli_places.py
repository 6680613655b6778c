"""Who may hold a connection to the CLI, and for how long."""

import contextlib
import os
import socket

import pytest

from lab import wait_until

NOBODY = 65534


def caller(router):
    opened = socket.socket(socket.AF_UNIX)
    opened.settimeout(20)
    opened.connect(str(router.socket))
    return opened


def words(opened):
    """All that comes until the other side closes."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while more := opened.recv(4096):
            said += more
    return said


def test_an_idle_connection_is_closed_and_one_that_waits_for_its_answer_is_not(lab):
    router = lab.router(unix="cli-idle-timeout 1")
    with caller(router) as idle:
        assert b"idle for too long: the connection is closed" in words(idle)
    wait_until(lambda: "closed: idle for too long" in router.log(), "the log says so")
    assert "cli-idle-timeout" in router.cli("show config")


def test_one_place_stays_free_for_root(lab):
    router = lab.router(unix="cli-socket-mode 0666", no_second_client="all places are taken here")
    os.chmod(router.directory, 0o755)
    with contextlib.ExitStack() as stack:
        os.seteuid(NOBODY)
        try:
            held = [stack.enter_context(caller(router)) for _ in range(63)]
            # Each is greeted, so each has its place.
            for opened in held:
                assert opened.recv(1)
            turned_away = stack.enter_context(caller(router))
            assert b"too many CLI connections" in words(turned_away)
        finally:
            os.seteuid(0)
        assert "quiver" in router.cli("show version")


def resident(router):
    """Bytes of memory that the process holds."""
    for line in open(f"/proc/{router.process.pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmRSS")


def read_until(opened, wanted):
    said = b""
    while wanted not in said[-100_000:]:
        more = opened.recv(65_536)
        assert more, said[-200:]
        said += more
    return said


@pytest.mark.slow
@pytest.mark.parametrize("command", ["show ip fib", "show running-config"])
def test_slow_readers_of_a_large_table_hold_a_page_each(lab, command):
    """A copy of the table for each was 24 bytes a route: 190 MB here. A copy of all commands is more."""
    router = lab.router(
        "create null interface name n0\nset interface ip address n0 10.200.0.2/24\nset interface state n0 up\n"
        "ip route add count 200000 10.0.0.0/32 via 10.200.0.1 n0\n"
    )
    before = resident(router)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(caller(router)) for _ in range(40)]
        for reader in readers:
            reader.sendall(command.encode() + b"\n")
        for reader in readers:
            read_until(reader, b"10.0.0.")
        assert "quiver" in router.cli("show version")
        assert resident(router) - before < 80 << 20
        # One that goes on reading has all of it.
        said = read_until(readers[0], b"10.3.13.63/32")
        assert said.count(b"/32") > 190_000
