"""A lab bench: hosts in network namespaces, and Quiver between them.

A `Lab` owns everything that a test makes and takes it down again, whatever happens. A
`Host` is a network namespace with one or more interfaces; `Host.inside()` lets Python
open sockets in it. A `Router` is one running `quiver` with its own configuration file,
log and CLI socket.

    h1 (10.0.1.2) ---- e0 [ router ] e1 ---- h2 (10.0.2.2)
                 10.0.1.1          10.0.2.1
"""

import contextlib
import ctypes
import fcntl
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from second_client import SecondClient

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A build with debug assertions: it checks its packet ledger every round.
QUIVER = pathlib.Path(os.environ.get("QUIVER", ROOT / "target/debug/quiver"))

# The node that packets come in by, by the driver of their interface.
INPUT_NODES = {"tap": "virtio-input", "af_packet": "af-packet-input", "af_xdp": "af_xdp-input"}

# The log, when the control thread did not come to the end of a piece of its work within two seconds.
HELD = "no command is answered meanwhile"

CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
# Percent of a core. Above it, the load tester itself withholds verdicts (--others).
DISTURBED = 10
_libc = ctypes.CDLL(None, use_errno=True)
_numbers = itertools.count(1)


@contextlib.contextmanager
def huge_pages_to_oneself():
    """Nobody else of the tests reserves any meanwhile, or looks how many there are."""
    with open("/tmp/quiver-test-huge-pages.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_until(condition, what, seconds=20.0, pause=0.02):
    """Waits for a condition; gives its value. `what` says in words what was waited for. A busy machine takes longer."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s until {what}: timeout")
        time.sleep(pause)


def run(*words, check=True, timeout=60):
    """Runs a program to its end; gives what it wrote."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise AssertionError(f"'{' '.join(map(str, words))}' ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


class Host:
    """A network namespace."""

    def __init__(self, lab, name):
        self.lab = lab
        self.name = name
        self.namespace = f"quiver-{os.getpid()}-{next(_numbers)}-{name}"
        run("ip", "netns", "add", self.namespace)
        # Only what a test sends is on its wires.
        self.set("net/ipv6/conf/all/disable_ipv6", 1)
        self.set("net/ipv6/conf/default/disable_ipv6", 1)
        for scope in ("all", "default"):
            self.set(f"net/ipv4/conf/{scope}/rp_filter", 0)
        self.ip("link", "set", "lo", "up")

    def ip(self, *words, check=True):
        """The `ip` command in this namespace."""
        return run("ip", "-n", self.namespace, *words, check=check).stdout

    def speak_ip6(self, address=None, interface="eth0", router=None):
        """Has an interface take part in IPv6; whose addresses are its own is not asked before it uses them."""
        self.set(f"net/ipv6/conf/{interface}/accept_dad", 0)
        self.set(f"net/ipv6/conf/{interface}/disable_ipv6", 0)
        if address is not None:
            self.ip("address", "add", address, "dev", interface, "nodad")
        if router is not None:
            self.ip("-6", "route", "add", "default", "via", router)

    def run(self, *words, check=True, timeout=60):
        """Runs a program in this namespace to its end."""
        return run("ip", "netns", "exec", self.namespace, *words, check=check, timeout=timeout)

    def start(self, *words, **options):
        """Starts a program in this namespace; the lab ends it."""
        command = ["ip", "netns", "exec", self.namespace, *map(str, words)]
        process = subprocess.Popen(command, text=True, **options)
        self.lab.processes.append(process)
        return process

    @contextlib.contextmanager
    def inside(self):
        """What is opened here belongs to this namespace, and stays there."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.namespace}") as there:
            _enter(there)
            try:
                yield
            finally:
                _enter(home)

    def set(self, key, value):
        """A kernel setting (`sysctl`) of this namespace."""
        with self.inside():
            pathlib.Path("/proc/sys", key).write_text(str(value))

    def socket(self, kind, address=None, timeout=5.0, family=socket.AF_INET):
        """A TCP or UDP socket of this host."""
        with self.inside():
            opened = socket.socket(family, kind)
        self.lab.stack.callback(opened.close)
        opened.settimeout(timeout)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address is not None:
            opened.bind(address)
        return opened

    def frames(self, interface="eth0", timeout=5.0):
        """A socket that sends and receives whole frames of an interface."""
        with self.inside():
            opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            self.lab.stack.callback(opened.close)
            opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            opened.bind((interface, ETH_P_ALL))
        opened.settimeout(timeout)
        return opened

    def mac(self, interface="eth0"):
        return json.loads(self.ip("-json", "link", "show", interface))[0]["address"]

    def neighbours(self):
        """The kernel's ARP cache: address to Ethernet address."""
        entries = json.loads(self.ip("-json", "neigh", "show"))
        return {entry["dst"]: entry["lladdr"] for entry in entries if "lladdr" in entry}

    def counter(self, name):
        """A protocol counter of the kernel, as `nstat` names it."""
        shown = self.run("nstat", "--json", "--zeros", "--ignore", "--noupdate", name).stdout
        return json.loads(shown)["kernel"][name]

    def ping(self, address, *options, count=3, interval=0.05, wait=2):
        """Pings; gives the program's output and end.

        After the last request ping waits for answers only as long as the interval, or twice the longest
        time of those before; `wait` counts when none came at all.
        """
        assert interval >= 0.02, "a shorter interval than the time for which a busy machine may halt us"
        return self.run(
            "ping", "-n", "-c", count, "-i", interval, "-W", wait, *options, address, check=False, timeout=120
        )

    def reaches(self, address, *options, count=3, **more):
        """Whether each of so many echo requests was answered.

        ping does not wait long for the last answers. When only those are missing, on a busy machine, it is run again.
        """
        for _ in range(2):
            done = self.ping(address, *options, count=count, **more)
            # pytest shows it with a failure.
            print(done.stdout, done.stderr)
            answers = re.findall(r"^\d+ bytes from .*icmp_seq=(\d+) ", done.stdout, re.MULTILINE)
            answered = sorted(set(map(int, answers)))
            if len(answered) == count:
                return True
            if not answered or answered != list(range(1, len(answered) + 1)):
                return False
        return False


def _enter(namespace):
    if _libc.setns(namespace.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "entering a network namespace")


@contextlib.contextmanager
def true_or_disturbed(file):
    """Figures of the load tester are right, or its file says first that other programs held the processors.

    'test_loadtest_busy' tests that such figures get no verdict.
    """
    try:
        yield
    except (AssertionError, TypeError):
        session = json.loads(file.read_text())
        assert list(session)[:2] == ["format", "others"], list(session)
        used = max(core["percent"] for core in session["others"]["during"])
        if used < DISTURBED:
            raise


# The kernel makes and removes devices under one lock, which tests beside this one hold while their namespaces go.
WAIT_FOR_THE_KERNEL = [f"{verb} {kind}" for verb in ("create", "delete") for kind in ("tap", "host-interface")]
WAIT_FOR_THE_KERNEL += ["create interface af_xdp", "delete interface af_xdp"]


def held_by_work(log):
    """Lines of a log that say that the control thread was held, and not because others had the processors, or a lock
    of the kernel: of these cases the second client says when they take too long."""
    held = r"'([^']*)' has held it for (\d+) s(?: \(it waited for a processor ([\d.]+) s\))?: " + HELD

    def is_work(line):
        found = re.search(held, line)
        if not found:
            return HELD in line
        what, seconds, waited = found.groups()
        return what not in WAIT_FOR_THE_KERNEL and float(waited or 0) < int(seconds) / 2

    return [line for line in log.splitlines() if is_work(line)]


class CommandFailed(Exception):
    """A command that the router refused, with what it said."""


class Router:
    """A running `quiver`."""

    def __init__(self, lab, commands="", extra="", unix="", binary=QUIVER, no_second_client=None):
        """`commands` is the start-up command file, `extra` more of startup.conf, `unix` more
        of its section of that name, in which DIR is the router's own directory. A second client asks
        all the while, unless `no_second_client` says why it must not."""
        self.lab = lab
        self.no_second_client = no_second_client
        self.second_client = None
        self.binary = binary
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="quiver-test-"))
        lab.stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        self.socket = self.directory / "cli.sock"
        self.log_file = self.directory / "quiver.log"
        self.host = Host(lab, "router")
        lab.hosts.append(self.host)
        self.finished = False

        self.commands = self.directory / "commands"
        self.commands.write_text(commands)
        exec_line = f"exec {self.commands}" if commands else ""
        unix = unix.replace("DIR", str(self.directory))
        self.config = self.directory / "startup.conf"
        self.config.write_text(
            f"unix {{\n  nodaemon\n  cli-listen {self.socket}\n  log {self.log_file}\n  {exec_line} {unix}\n}}\n"
            f"logging {{ default-log-level debug }}\n{extra}\n"
        )
        self.console_file = open(self.directory / "console", "w+")
        lab.stack.callback(self.console_file.close)
        self.start()
        if commands:
            wait_until(lambda: "startup commands" in self.log(), "the start-up commands are done")

    def start(self):
        """Starts the process: at first, and after it was ended."""
        self.finished = False
        self.process = self.host.start(
            self.binary, "run", "--config", self.config, stdout=self.console_file, stderr=subprocess.STDOUT
        )
        wait_until(lambda: self.answers() or self.process.poll() is not None, "the router answers")
        assert self.process.poll() is None, f"the router did not start:\n{self.console()}{self.log()}"
        if self.no_second_client is None:
            self.second_client = SecondClient(self)

    def answers(self):
        with socket.socket(socket.AF_UNIX) as caller:
            return caller.connect_ex(str(self.socket)) == 0

    def kill(self):
        """Ends the process as nothing would that means well."""
        self.process.kill()
        self.process.wait(timeout=30)
        self.dismiss_second_client()
        self.finished = True

    def console(self):
        """What the process wrote to its standard output and error."""
        return (self.directory / "console").read_text()

    def log(self):
        """The log file, once all is written that was logged so far."""
        if self.process.poll() is None:
            with contextlib.suppress(AssertionError, subprocess.SubprocessError):
                wait_until(self.log_is_written, "the log is written")
        return self.log_file.read_text() if self.log_file.exists() else ""

    def log_is_written(self):
        """Whether no line waits; one that does not answer cannot tell."""
        ask = (self.binary, "cli", "--socket", self.socket, "--json", "show logging configuration")
        done = run(*ask, check=False, timeout=5)
        return done.returncode != 0 or json.loads(done.stdout).get("waiting", 0) == 0

    def cli(self, command, *, json_format=False):
        """Gives a command; gives the answer, or raises `CommandFailed`."""
        options = ["--json"] if json_format else []
        done = run(self.binary, "cli", "--socket", self.socket, *options, *command.split(), check=False)
        if done.returncode != 0:
            raise CommandFailed(done.stderr.strip())
        return done.stdout

    def cli_json(self, command):
        return json.loads(self.cli(command, json_format=True))

    def batch(self, commands):
        """Gives several commands, one a line, as `quiver cli < FILE` does."""
        done = subprocess.run(
            [self.binary, "cli", "--socket", self.socket], input=commands, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CommandFailed(done.stderr.strip())
        return done.stdout

    def attach(self, host, name, driver, address, interface="eth0", queues=1):
        """A wire from a host's `interface`, which gets an address (or none), to a new
        interface of the router with so many receive queues."""
        many = queues
        queues = f"num-rx-queues {queues}" if queues > 1 else ""
        if driver == "tap":
            numbered = f"host-ip4-addr {address}" if address else ""
            self.cli(f"create tap name {name} host-if-name {interface} host-ns {host.namespace} {numbered} {queues}")
        else:
            wide = ("numtxqueues", many, "numrxqueues", many)
            peer = ("peer", "name", f"to-{name}", *wide, "netns", self.host.namespace)
            host.ip("link", "add", interface, *wide, "type", "veth", *peer)
            if address:
                host.ip("address", "add", address, "dev", interface)
            host.ip("link", "set", interface, "up")
            if driver == "af_xdp":
                self.cli(f"create interface af_xdp host-if to-{name} name {name} {queues}")
            else:
                self.cli(f"create host-interface to-{name} name {name} {queues}")

    def interface(self, name):
        """What `show interface` says of one."""
        return self.cli_json(f"show interface {name}")["interfaces"][0]

    def counters(self, name):
        return self.interface(name)["counters"]

    def wait_for_addresses6(self):
        """Until the links were asked whether others have the router's IPv6 addresses."""
        wait_until(lambda: "[tentative]" not in self.cli("show ip6 interface"), "its addresses are used")

    def errors(self):
        """`show errors` as a dictionary: reason to count, over all nodes."""
        counts = {}
        for error in self.cli_json("show errors")["errors"]:
            counts[error["reason"]] = counts.get(error["reason"], 0) + error["count"]
        return counts

    def neighbours(self):
        """`show ip neighbors` by address."""
        return {known["ip"]: known for known in self.cli_json("show ip neighbors")["neighbors"]}

    def cpu_seconds(self):
        """Processor time that the process has used so far."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def check_health(self, held=0):
        """Nothing is lost, nothing has gone wrong: what is true after every test."""
        assert self.process.poll() is None, f"the router ended with {self.process.poll()}"

        def settled():
            ledger, pool = self.cli_json("show ledger"), self.cli_json("show buffers")
            return ledger["balanced"] and ledger["held"] == held and pool["used"] - pool["lent"] == held

        try:
            wait_until(settled, f"all packets are accounted for and {held} held", seconds=4)
        except AssertionError:
            raise AssertionError(
                f"packets are not accounted for; {held} should be held:\n"
                f"{self.cli('show ledger')}{self.cli('show buffers')}"
            ) from None
        said = self.log() + self.console()
        for bad in ("panicked", "node-panic"):
            assert bad not in said, f"'{bad}' in the log"
        if not self.no_second_client:
            assert not held_by_work(said), held_by_work(said)
        assert "node-panic" not in self.cli("show errors")

    def stop(self):
        """Ends the router as an operator would."""
        if self.finished:
            return
        self.finished = True
        if self.second_client is not None:
            self.second_client.check()
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=30) == 0, f"exit code {self.process.returncode} after SIGTERM"
        self.dismiss_second_client()
        assert not self.socket.exists(), "the CLI socket was left behind"

    def dismiss_second_client(self):
        """Its process has ended, or will be ended."""
        if self.second_client is not None:
            self.second_client.stop()
            self.lab.longest_wait = max(self.lab.longest_wait, self.second_client.longest)
            self.second_client = None

    def story(self):
        """All that helps to understand a failure."""
        parts = [("startup.conf", self.config.read_text()), ("log", self.log()), ("console", self.console())]
        if self.process.poll() is None:
            commands = ("interface", "interface address", "ip neighbors", "ip fib", "errors", "ledger", "buffers")
            for command in commands:
                try:
                    parts.append((f"show {command}", self.cli(f"show {command}")))
                except (CommandFailed, subprocess.SubprocessError) as error:
                    parts.append((f"show {command}", f"no answer: {error}"))
        else:
            parts.append(("end", f"exit code {self.process.returncode}"))
        return "\n".join(f"--- {title}\n{text}" for title, text in parts)


class Lab:
    """All that a test made. Packets that may be left waiting in a router at the end are
    told in `held`."""

    def __init__(self):
        self.stack = contextlib.ExitStack()
        self.hosts = []
        self.routers = []
        self.processes = []
        self.held = 0
        # What a second client waited longest for an answer, in seconds.
        self.longest_wait = 0.0

    def host(self, name):
        host = Host(self, name)
        self.hosts.append(host)
        return host

    def router(self, commands="", **options):
        router = Router(self, commands, **options)
        self.routers.append(router)
        return router

    def two_hosts(self, driver, commands="", queues=1, **options):
        """The bench that the head of this file shows."""
        router = self.router(commands, **options)
        hosts = []
        for number in (1, 2):
            name = f"e{number - 1}"
            host = self.host(f"h{number}")
            router.attach(host, name, driver, f"10.0.{number}.2/24", queues=queues)
            router.cli(f"set interface ip address {name} 10.0.{number}.1/24")
            router.cli(f"set interface state {name} up")
            host.ip("route", "add", "default", "via", f"10.0.{number}.1")
            hosts.append(host)
        return (router, *hosts)

    def two_hosts6(self, driver, commands="", queues=1, **options):
        """The same bench with IPv6: h1 has 2001:db8:1::2, h2 has 2001:db8:2::2, the router ::1 of both networks."""
        router = self.router(commands, **options)
        hosts = []
        for number in (1, 2):
            name = f"e{number - 1}"
            host = self.host(f"h{number}")
            router.attach(host, name, driver, None, queues=queues)
            host.speak_ip6(f"2001:db8:{number}::2/64", router=f"2001:db8:{number}::1")
            router.cli(f"set interface ip address {name} 2001:db8:{number}::1/64")
            router.cli(f"set interface state {name} up")
            hosts.append(host)
        router.wait_for_addresses6()
        return (router, *hosts)

    def finish(self):
        """The checks at the end of every test."""
        for router in self.routers:
            if not router.finished:
                router.check_health(self.held)
                router.stop()

    def tear_down(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.kill()
            process.wait()
        for router in self.routers:
            router.dismiss_second_client()
        self.stack.close()
        for host in self.hosts:
            run("ip", "netns", "delete", host.namespace, check=False)
