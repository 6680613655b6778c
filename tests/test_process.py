"""The process: what it tells the service manager, its log, signals, files, sockets."""

import contextlib
import ctypes
import grp
import json
import mmap
import os
import select
import signal
import socket
import stat
import subprocess

import pytest

from lab import QUIVER, huge_pages_to_oneself, run, wait_until

# Linux, mman.h: of which Python has no name for the last.
HUGE_PAGES = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000


class Manager:
    """A service manager's ear: the socket that `NOTIFY_SOCKET` names."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.socket.settimeout(10)
        self.environment = {**os.environ, "NOTIFY_SOCKET": str(path)}

    def hears(self, wanted):
        """The next message that has the line `wanted`, as a list of lines."""
        while True:
            lines = self.socket.recv(4096).decode().split("\n")
            if wanted in lines:
                return lines


@pytest.fixture
def manager(tmp_path):
    made = Manager(tmp_path / "notify.sock")
    yield made
    made.socket.close()


@pytest.fixture
def start(lab, tmp_path):
    """Starts a router whose whole configuration is given; it is ended with the lab."""

    def begin(unix, **options):
        config = tmp_path / "startup.conf"
        config.write_text(
            f"unix {{\n  nodaemon\n  runtime-dir {tmp_path}\n  cli-listen {tmp_path}/cli.sock\n{unix}\n}}\n"
        )
        return lab.host("router").start(QUIVER, "run", "--config", config, **options)

    return begin


def ask(tmp_path, *words):
    return run(QUIVER, "cli", "--socket", tmp_path / "cli.sock", *words).stdout


def test_the_manager_is_told_from_start_to_end(start, manager, tmp_path):
    commands = tmp_path / "commands"
    commands.write_text("create null interface name n0\n")
    environment = {**manager.environment, "WATCHDOG_USEC": "400000"}
    router = start(f"  exec {commands}\n  log {tmp_path}/log\n", env=environment)
    assert manager.hears("READY=1") == ["READY=1", f"STATUS=commands on {tmp_path}/cli.sock"]
    # Only now: the start-up commands have been carried out.
    assert "n0" in ask(tmp_path, "show", "interface")
    for _ in range(3):
        manager.hears("WATCHDOG=1")
    router.send_signal(signal.SIGHUP)
    began, clock = manager.hears("RELOADING=1")
    assert began == "RELOADING=1" and int(clock.removeprefix("MONOTONIC_USEC=")) > 0
    manager.hears("READY=1")
    router.terminate()
    assert manager.hears("STOPPING=1")[1] == "STATUS=signal 15: leaving"
    assert router.wait(10) == 0


def test_a_bad_startup_command_is_in_the_status(start, manager, tmp_path):
    commands = tmp_path / "commands"
    commands.write_text("\nmake coffee\n")
    router = start(f"  exec {commands}\n", env=manager.environment, stderr=subprocess.DEVNULL)
    status = manager.hears("READY=1")[1]
    assert f"{commands}:2: " in status and "'make'" in status
    router.terminate()
    assert router.wait(10) == 0


def test_without_a_watchdog_nobody_is_woken(start, manager, tmp_path):
    """Not even by what is meant for another process."""
    environment = {**manager.environment, "WATCHDOG_USEC": "20000", "WATCHDOG_PID": "1"}
    router = start(f"  log {tmp_path}/log\n", env=environment)
    manager.hears("READY=1")
    ask(tmp_path, "show", "version")
    router.terminate()
    assert router.wait(10) == 0
    assert manager.socket.recv(4096).decode().startswith("STOPPING=1")


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_ALL = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


@contextlib.contextmanager
def standing_still(thread):
    """One thread of a process makes no progress, as if it hung; the others go on."""

    def trace(request):
        if _libc.ptrace(request, thread, None, None) != 0 and request != PTRACE_DETACH:
            raise OSError(ctypes.get_errno(), "ptrace")

    trace(PTRACE_SEIZE)
    trace(PTRACE_INTERRUPT)
    os.waitpid(thread, WAIT_ALL)
    try:
        yield
    finally:
        trace(PTRACE_DETACH)


def thread_named(process, name):
    """The number of a thread; it gives itself its name when it begins."""

    def find():
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            # Those that close devices come and go.
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{process.pid}/task/{thread}/comm") as comm:
                if comm.read().strip() == name:
                    return int(thread)
        return None

    return wait_until(find, f"there is a thread {name}")


def hears_nothing(manager):
    """Nothing is said for several watchdog periods, once what is under way has come."""
    manager.socket.settimeout(1)
    try:
        with pytest.raises(TimeoutError):
            for _ in range(4):
                manager.socket.recv(4096)
    finally:
        manager.socket.settimeout(10)


@pytest.mark.parametrize("who", ["worker", "control"])
def test_the_watchdog_is_silent_while_a_thread_hangs(start, manager, tmp_path, who):
    router = start(f"  log {tmp_path}/log\n", env={**manager.environment, "WATCHDOG_USEC": "400000"})
    manager.hears("READY=1")
    manager.hears("WATCHDOG=1")
    with standing_still(thread_named(router, "quiver_wk_0") if who == "worker" else router.pid):
        hears_nothing(manager)
        if who == "worker":
            assert "worker 0 has not answered for 0.2 s" in (tmp_path / "log").read_text()
    manager.hears("WATCHDOG=1")
    router.terminate()
    assert router.wait(10) == 0


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(lab):
    """Even when the thread that should clean up hangs."""
    router = lab.router()
    with standing_still(router.process.pid):
        router.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "signal 15: another one ends it at once" in router.log(), "the first has been taken")
        assert router.process.poll() is None
        router.process.send_signal(signal.SIGINT)
        assert router.process.wait(10) == 1
    router.finished = True


def test_hup_opens_the_log_anew(lab):
    router = lab.router()
    moved = router.log_file.with_suffix(".1")
    assert " runs; commands on " in router.log()
    router.log_file.rename(moved)
    router.process.send_signal(signal.SIGHUP)
    wait_until(lambda: f"SIGHUP: log {router.log_file} opened anew" in router.log(), "the new log is written")
    assert " runs; commands on " in moved.read_text() and " runs; commands on " not in router.log()


def test_a_log_that_cannot_be_opened_anew_goes_on(lab):
    router = lab.router()
    away = router.log_file.with_suffix(".1")
    router.log_file.rename(away)
    router.log_file.mkdir()
    router.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "the old one goes on" in away.read_text(), "the old log says why")
    router.log_file.rmdir()


def full_pipe():
    """Both ends of a pipe that has no room for a byte more."""
    reader, writer = os.pipe()
    fill(writer)
    return reader, writer


def fill(writer):
    os.set_blocking(writer, False)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"-" * size)
    os.set_blocking(writer, True)


def waits(tmp_path):
    """How many lines of the log wait to be written."""
    return json.loads(ask(tmp_path, "--json", "show logging configuration"))["waiting"]


def drain(reader, wanted):
    """Reads a pipe until something stands in it; gives all."""
    said = ""
    while wanted not in said:
        assert select.select([reader], [], [], 20)[0], f"{wanted} is not in {said}"
        said += os.read(reader, 65_536).decode()
    return said


def test_a_full_pipe_as_standard_error_holds_up_nobody(start, tmp_path):
    """Not its start, not its commands, not its end."""
    reader, writer = full_pipe()
    router = start("", stderr=writer)
    wait_until(lambda: (tmp_path / "cli.sock").exists(), "it has a socket", seconds=20)
    wait_until(lambda: waits(tmp_path) > 0, "its first line waits for room")
    assert "lines wait to be written" in ask(tmp_path, "show", "logging", "configuration")
    # Nothing is lost that found room in the queue.
    drain(reader, " runs; commands on ")
    wait_until(lambda: waits(tmp_path) == 0, "all is written")
    fill(writer)
    ask(tmp_path, "create", "null", "interface", "name", "n0")
    router.terminate()
    assert router.wait(20) == 0
    os.close(reader)
    os.close(writer)


def test_a_failed_start_ends_though_standard_error_is_full(lab, tmp_path):
    reader, writer = full_pipe()
    config = tmp_path / "startup.conf"
    config.write_text("unix { nodaemon no-such-key }")
    router = lab.host("router").start(QUIVER, "run", "--config", config, stderr=writer)
    assert router.wait(20) == 1
    os.close(reader)
    os.close(writer)


def test_a_pipe_as_log_file_is_never_waited_for(start, tmp_path):
    pipe = tmp_path / "log"
    os.mkfifo(pipe)
    config = f"  log {pipe}\n"
    # Nobody reads it: whoever would open it waits for ever.
    router = start(config, stderr=subprocess.PIPE)
    assert router.wait(20) == 1
    assert f"log {pipe}: is a pipe that nobody reads" in router.stderr.read()
    # Somebody opened it, and takes nothing.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(pipe, os.O_WRONLY)
    fill(writer)
    router = start(config)
    wait_until(lambda: (tmp_path / "cli.sock").exists(), "it has a socket", seconds=20)
    wait_until(lambda: waits(tmp_path) > 0, "its first line waits for room")
    drain(reader, " runs; commands on ")
    fill(writer)
    router.terminate()
    assert router.wait(20) == 0
    os.close(reader)
    os.close(writer)


def test_a_log_that_became_a_pipe_is_not_waited_for(lab):
    router = lab.router()
    away = router.log_file.with_suffix(".1")
    router.log_file.rename(away)
    os.mkfifo(router.log_file)
    router.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "is a pipe that nobody reads" in away.read_text(), "the old log says why")
    assert "the old one goes on" in away.read_text()
    router.cli("create null interface name n0")
    router.log_file.unlink()
    router.stop()


@pytest.mark.slow
def test_a_signal_ends_it_even_when_nothing_answers(lab):
    """The thread that should end it hangs: it is given its time, then the process ends."""
    router = lab.router()
    with standing_still(router.process.pid):
        router.process.send_signal(signal.SIGTERM)
        assert router.process.wait(60) == 1
    assert "does not come to its end within 20 s of the signal: it is ended" in router.log()
    router.finished = True


def test_the_log_is_shown_and_its_levels_can_be_set(lab):
    router = lab.router(extra="logging { class neighbor { level err } size 100 class dhpc { level debug } }")
    shown = router.cli("show logging")
    assert " notice     quiver         quiver v" in shown
    assert "no log class 'dhpc'; did you mean 'dhcp'?" in shown and "startup.conf:8:" in shown
    entries = router.cli_json("show log")["entries"]
    assert {"time", "level", "class", "text"} == set(entries[0])
    # The file has each of them, with a time that sorts.
    for entry in entries:
        assert f"{entry['time']} {entry['level']} {entry['class']}: {entry['text']}\n" in router.log()
    configuration = router.cli_json("show logging configuration")
    assert configuration["size"] == 100 and configuration["default_level"] == "debug"
    assert {"class": "neighbor", "level": "err", "syslog_level": None, "rate_limit": 50} in configuration["classes"]
    router.cli("clear logging")
    assert router.cli("show logging") == "No log entries\n"


def test_what_is_not_written_is_kept(lab):
    router = lab.router(extra="logging { default-syslog-log-level err }")
    assert " runs; commands on " in router.cli("show logging")
    assert " runs; commands on " not in router.log()


def test_the_journal_gets_priorities(start, tmp_path):
    console = open(tmp_path / "console", "w+")
    status = os.fstat(console.fileno())
    environment = {**os.environ, "JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"}
    router = start("  nosyslog\n", env=environment, stderr=console)
    wait_until(lambda: " runs; commands on " in (tmp_path / "console").read_text(), "it runs")
    router.terminate()
    assert router.wait(10) == 0
    lines = (tmp_path / "console").read_text().splitlines()
    assert f"<5>quiver: quiver v{version()} runs; commands on {tmp_path}/cli.sock" in lines
    assert any(line.startswith("<4>quiver: unix: nosyslog has no effect: ") for line in lines)
    console.close()


def version():
    return run(QUIVER, "--version").stdout.split()[1]


def test_nothing_is_written_through_a_link_and_no_directory_is_for_everybody(start, tmp_path):
    """Where others may write they can leave a link, and an umask of 0 would let everybody in."""
    precious = tmp_path / "precious"
    precious.write_text("precious")
    (tmp_path / "pid").symlink_to(precious)
    deep = tmp_path / "made" / "deeper"
    router = start(f"  pidfile {tmp_path}/pid\n  log {deep}/log\n", preexec_fn=lambda: os.umask(0))
    wait_until(lambda: (deep / "log").exists() and "runs" in (deep / "log").read_text(), "it runs", seconds=20)
    assert precious.read_text() == "precious"
    assert (tmp_path / "pid").read_text() == f"{router.pid}\n" and not (tmp_path / "pid").is_symlink()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (deep, deep.parent)] == [0o755, 0o755]
    router.terminate()
    assert router.wait(20) == 0
    assert precious.read_text() == "precious" and not (tmp_path / "pid").exists()


def test_the_end_leaves_nothing_behind(start, tmp_path):
    commands = tmp_path / "commands"
    commands.write_text("create tap name e0 host-if-name lan0\nset interface state e0 up\n")
    router = start(f"  exec {commands}\n  pidfile {tmp_path}/pid\n  log {tmp_path}/log\n")
    wait_until(lambda: "done" in (tmp_path / "log").read_text() if (tmp_path / "log").exists() else False, "it runs")
    assert (tmp_path / "pid").read_text() == f"{router.pid}\n"
    links = ("ip", "netns", "exec", run("ip", "netns", "identify", router.pid).stdout.strip(), "ip", "link")
    assert "lan0" in run(*links).stdout
    router.terminate()
    assert router.wait(10) == 0
    assert "lan0" not in run(*links).stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["commands", "log", "startup.conf"]


def test_a_router_that_does_not_start_tells_its_log(lab):
    """In the background nobody may be there to read standard error."""
    router = lab.router()
    config = router.directory / "second.conf"
    config.write_text(f"unix {{ nodaemon cli-listen {router.socket} log {router.directory}/second.log }}\n")
    assert router.host.run(QUIVER, "run", "--config", config, check=False, timeout=20).returncode == 1
    said = (router.directory / "second.log").read_text()
    assert f" err quiver: the router does not start: CLI socket: {router.socket} is in use by process " in said


def test_an_unknown_group_is_named_with_its_place(lab):
    router = lab.router(extra="unix {\n  gid nobodys-group\n}")
    assert f"{router.config}:9:3: gid nobodys-group: no such group" in router.log()
    assert stat.S_IMODE(router.socket.stat().st_mode) == 0o660 and router.socket.stat().st_gid == os.getgid()


# As VPP's packages install it, and two NICs as an operator adds them.
VPP_CONFIG = """
unix {{
  nodaemon
  log {root}/var/log/vpp/vpp.log
  full-coredump
  cli-listen {root}/run/vpp/cli.sock
  gid vpp

  ## the interactive mode is for debugging
  # interactive
}}
api-trace {{
## This stays on
  on
}}
api-segment {{ gid vpp }}
socksvr {{ default }}
# memory {{ main-heap-size 1.5G }}
cpu {{
  # main-core 1
}}
dpdk {{
  dev 0000:02:00.0 {{ name e0 }}
  dev 0000:03:00.0 {{ name e1 }}
  no-multi-seg
  decimal-interface-names
  uio-driver vfio-pci
}}
# statseg {{ size 32m }}
"""


def test_a_configuration_of_vpp_starts(lab, tmp_path):
    config = tmp_path / "startup.conf"
    config.write_text(VPP_CONFIG.format(root=tmp_path))
    router = lab.host("router").start(QUIVER, "run", "--config", config)
    ask = (QUIVER, "cli", "-s", tmp_path / "run/vpp/cli.sock", "show", "logging")
    wait_until(lambda: run(*ask, check=False).returncode == 0, "it answers")
    shown = run(*ask).stdout
    assert "0000:02:00.0 (e0), 0000:03:00.0 (e1) will not exist" in shown and "create host-interface" in shown
    for name in ("api-trace", "api-segment", "socksvr"):
        assert f" quiver         {name}" in shown
    assert " err " not in shown
    router.terminate()
    assert router.wait(10) == 0


@pytest.mark.parametrize("key", ["log", "pidfile"])
def test_a_file_that_cannot_be_written_is_named_with_its_place(tmp_path, key):
    config = tmp_path / "startup.conf"
    config.write_text(f"unix {{\n  nodaemon cli-listen {tmp_path}/cli.sock\n  {key} {config}/x\n}}\n")
    done = run(QUIVER, "run", "--config", config, check=False, timeout=20)
    assert done.returncode == 1
    assert f"{config}:3:3: {key} {config}/x: " in done.stderr
    assert not (tmp_path / "cli.sock").exists()


@pytest.mark.parametrize("by_name", [True, False])
def test_the_socket_has_the_group_and_mode_that_are_asked_for(start, tmp_path, by_name):
    group = grp.getgrnam("daemon")
    router = start(
        f"  gid {group.gr_name if by_name else group.gr_gid}\n  cli-socket-mode 0620\n  log {tmp_path}/log\n"
    )
    wait_until(
        lambda: run(QUIVER, "cli", "-s", tmp_path / "cli.sock", "show version", check=False).returncode == 0, "it runs"
    )
    status = (tmp_path / "cli.sock").stat()
    assert (status.st_gid, stat.S_IMODE(status.st_mode)) == (group.gr_gid, 0o620)
    router.terminate()
    assert router.wait(10) == 0


def test_the_directory_of_the_socket_lets_others_through_whatever_the_umask(lab, tmp_path):
    directory = tmp_path / "run" / "quiver"
    directory.parent.mkdir()
    config = tmp_path / "startup.conf"
    config.write_text(f"unix {{ nodaemon runtime-dir {directory} }}\n")
    before = os.umask(0o027)
    try:
        lab.host("router").start(QUIVER, "run", "--config", config)
        wait_until((directory / "cli.sock").exists, "the socket is there")
    finally:
        os.umask(before)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o755


def test_core_files_hold_everything_when_asked(start, manager):
    router = start("  full-coredump\n", env=manager.environment, stderr=subprocess.DEVNULL)
    manager.hears("READY=1")
    with open(f"/proc/{router.pid}/limits") as limits:
        assert [line.split()[4] for line in limits if line.startswith("Max core file size")] == ["unlimited"]
    with open(f"/proc/{router.pid}/coredump_filter") as chosen:
        assert int(chosen.read(), 16) & 0x7F == 0x7F
    router.terminate()
    assert router.wait(10) == 0


def test_an_interactive_router_reads_standard_input_and_ends_with_it(start, tmp_path):
    router = start(f"  interactive\n  log {tmp_path}/log\n", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    said, _ = router.communicate("show version\ncreate null interface name n0\nshow interface\n", timeout=20)
    assert router.returncode == 0
    assert f"quiver v{version()}" in said and "\nn0 " in said
    assert "end of the session on standard input: leaving" in (tmp_path / "log").read_text()


def test_huge_pages_that_are_not_there_are_missed(lab):
    """All that are free are taken by the test first. A router of another test may give some back meanwhile."""
    missed = "buffers: page-size: no huge pages are free, plain pages are used"

    def starts_without_huge_pages():
        with contextlib.ExitStack() as taken:
            for size in (512 << 20, 2 << 20):
                with contextlib.suppress(OSError):
                    while True:
                        taken.enter_context(mmap.mmap(-1, size, flags=HUGE_PAGES))
            router = lab.router(extra="buffers { page-size 2m }")
        return missed in router.log()

    with huge_pages_to_oneself():
        wait_until(starts_without_huge_pages, f"'{missed}' is logged")
