"""A Linux with a kernel of its own, in an emulated machine: for what the kernel that runs the
tests may lack, such as 802.1Q.

The machine boots Debian's kernel and a shell within seconds, without a disk. Commands go to its
shell over the serial line. As a peer, its `eth0` is a TAP device in a host's namespace:

    router [ e0 ]--- to-e0 (TAP, in the router's namespace) --- eth0 [ guest ]

Or the router itself runs in it, beside its peer (`GuestRouter`).
"""

import json
import os
import pathlib
import platform
import select
import shutil
import subprocess
import time

import pytest

from conftest import require
from lab import CommandFailed, ROOT, run, wait_until

KERNEL = ROOT / "target/guest"
MODULES = (
    "virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net "
    "llc stp garp mrp 8021q tun veth bridge vrf ip_tunnel mpls_router mpls_iptunnel"
).split()

INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in {" ".join(MODULES)}; do insmod /modules/$module.ko; done
stty -echo < /dev/ttyS0
mount -t tmpfs run /run
mkdir -p /var && ln -s /run /var/run
ip link set lo up
[ -e /sys/class/net/eth0 ] && ip link set eth0 up
export PATH=/sbin:/usr/sbin:/bin:/usr/bin
[ -x /sbin/dash ] && ln -s dash /sbin/sh && exec dash /loop
exec sh /loop
"""
# Busybox's own shell takes its own `ip` whatever the path; dash takes the one that was brought.
LOOP = """echo ready
while read -r line; do
    eval "$line"
    echo "ended with $?"
done
poweroff -f
"""


def machine_needs():
    """Skips the test where a guest cannot be had."""
    if platform.machine() != "x86_64":
        pytest.skip("needs an x86-64 machine, for the guest's kernel")
    for tool in ("qemu-system-x86_64", "busybox", "cpio"):
        require(tool)
    if (KERNEL / "vmlinuz").exists() and all((KERNEL / f"modules/{module}.ko").exists() for module in MODULES):
        return
    if shutil.which("apt-get") is None:
        pytest.skip("needs Debian's packages, for the guest's kernel")
    fetched = run(ROOT / "scripts/guest-kernel.sh", KERNEL, *MODULES, check=False, timeout=300)
    if fetched.returncode != 0:
        pytest.skip(f"needs the guest's kernel, which cannot be fetched: {fetched.stderr.strip()[-200:]}")


def copy_program(program, root):
    """A program with its libraries, without symbols."""
    found = pathlib.Path(shutil.which(program) or program).resolve()
    libraries = run("ldd", found).stdout.split()
    for file in [found, *(pathlib.Path(word) for word in libraries if word.startswith("/"))]:
        place = root / (f"sbin/{pathlib.Path(program).name}" if file == found else str(file)[1:])
        place.parent.mkdir(parents=True, exist_ok=True)
        if run("strip", "-o", place, file, check=False).returncode != 0:
            shutil.copy(file, place)


def initial_disk(directory, programs=()):
    """An archive of files that the kernel unpacks and starts: a shell, its drivers, programs."""
    root = directory / "root"
    for name in ("bin", "sbin", "proc", "sys", "dev", "run", "tmp", "modules"):
        (root / name).mkdir(parents=True)
    for program in programs:
        copy_program(program, root)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for module in MODULES:
        shutil.copy(KERNEL / f"modules/{module}.ko", root / "modules")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    (root / "loop").write_text(LOOP)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = directory / "initrd"
    with open(archive, "wb") as into:
        subprocess.run(
            ["cpio", "--create", "--format=newc", "--quiet"], input=names.encode(), stdout=into, cwd=root, check=True
        )
    return archive


class Guest:
    """The machine. Made, it runs; who made it ends its process."""

    def __init__(self, start, directory, wire=(), ip6=False, programs=(), memory=128):
        """`start` starts a process. `wire` is what connects it, as arguments of the emulator."""
        machine_needs()
        # Only what a test sends is on its wires.
        families = "" if ip6 else "ipv6.disable=1"
        disk = initial_disk(pathlib.Path(directory), programs)
        command = (
            f"qemu-system-x86_64 -accel tcg -cpu max -m {memory} -display none -serial stdio -monitor none -no-reboot "
            f"-kernel {KERNEL}/vmlinuz -initrd {disk}"
        ).split()
        self.process = start(
            *command,
            *wire,
            *("-append", f"console=ttyS0 quiet panic=-1 {families}"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said = ""
        self.read_until("ready", 90)

    @classmethod
    def as_peer(cls, host, tap, directory, **options):
        """One whose `eth0` is a TAP device of a host."""
        wire = (
            f"-netdev tap,id=wire,ifname={tap},script=no,downscript=no "
            "-device virtio-net-pci,netdev=wire,mac=02:00:00:00:00:77,romfile="
        ).split()
        return cls(host.start, directory, wire, **options)

    def read_until(self, word, seconds):
        """Reads lines from the serial line up to one that begins with `word`, and gives that."""
        deadline = time.monotonic() + seconds
        while True:
            *lines, rest = self.said.split("\n")
            for number, line in enumerate(lines):
                if line.strip().startswith(word):
                    self.before = "\n".join(text.rstrip("\r") for text in lines[:number])
                    self.said = "\n".join([*lines[number + 1 :], rest])
                    return line.strip()
            left = deadline - time.monotonic()
            assert left > 0, f"the guest did not say '{word}' in {seconds} s but:\n{self.said}"
            if select.select([self.process.stdout], [], [], min(left, 1))[0]:
                heard = os.read(self.process.stdout.fileno(), 65536)
                assert heard, f"the guest ended:\n{self.said}"
                self.said += heard.decode(errors="replace")

    def sh(self, line, *, check=True, seconds=60):
        """Runs a line of shell; gives what it printed."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        end = self.read_until("ended with", seconds)
        assert not check or end == "ended with 0", f"'{line}' {end}:\n{self.before}"
        return self.before

    def reaches(self, address, *options, count=3):
        """Whether every echo request was answered."""
        said = self.sh(f"ping -c {count} -W 2 {' '.join(options)} {address}", check=False)
        return ", 0% packet loss" in said


class GuestRouter:
    """The router in a guest, for what the control plane of Linux can do there. Its interface `e0` leads to `p0` in the
    namespace `peer`; Linux has its sides of pairs in the namespace `dp`.

        namespace dp: xe0 ... --- lcp0 [ router ] e0 --- w0, p0 (veth) --- namespace peer
    """

    SOCKET = "/run/quiver.sock"

    def __init__(self, guest, linux_cp=""):
        """`linux_cp` is more of that section of startup.conf."""
        self.guest, self.linux_cp = guest, linux_cp
        guest.sh("ip netns add dp && ip netns add peer")
        # Room for two tags: AF_PACKET and veth count all but one 802.1Q tag.
        guest.sh("ip link add w0 mtu 1508 type veth peer name p0 mtu 1508 netns peer && ip link set w0 up")
        # Addresses are in use at once.
        dad = "sysctl -qw net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0"
        self.linux(dad)
        self.peer(f"{dad} && ip link set p0 up && ip link set lo up")
        self.start()
        self.cli("create host-interface w0 name e0")
        self.cli("set interface state e0 up")

    def start(self):
        """Starts the process."""
        unix = f"unix {{ nodaemon cli-listen {self.SOCKET} log /run/quiver.log }}"
        text = f"{unix} linux-cp {{ default netns dp {self.linux_cp} }}"
        self.guest.sh(f"echo '{text}' > /run/startup.conf && rm -f /run/quiver.log")
        self.guest.sh("quiver run --config /run/startup.conf > /run/console 2>&1 & echo $! > /run/quiver.pid")
        answers = f"quiver cli --socket {self.SOCKET} show version"
        wait_until(lambda: "quiver v" in self.guest.sh(answers, check=False), "the router answers")

    def cli(self, command):
        """Gives a command; gives the answer, or raises `CommandFailed`."""
        said = self.guest.sh(f"quiver cli --socket {self.SOCKET} '{command}' 2>&1; echo rc $?")
        answer, code = said.rsplit("rc ", 1)
        if code.strip() != "0":
            raise CommandFailed(answer.strip())
        return answer

    def cli_json(self, command):
        return json.loads(self.cli_of("--json", command))

    def cli_of(self, option, command):
        return self.guest.sh(f"quiver cli --socket {self.SOCKET} {option} '{command}'")

    def linux(self, line, **options):
        """Runs a line of shell where the sides of pairs are."""
        return self.inside("dp", line, **options)

    def peer(self, line, **options):
        return self.inside("peer", line, **options)

    def inside(self, namespace, line, **options):
        # An emulated processor takes its time to enter a namespace; `ip` does so by itself.
        commands = [
            f"ip -n {namespace} {rest}" if word == "ip" else f"ip netns exec {namespace} {word} {rest}"
            for word, rest in (command.split(maxsplit=1) for command in line.split(" && "))
        ]
        return self.guest.sh(" && ".join(commands), **options)

    def reaches(self, where, address, *options):
        """Whether echo requests from a namespace are answered."""
        said = where(f"ping -c 2 -i 0.2 -W 2 {' '.join(options)} {address}", check=False)
        return ", 0% packet loss" in said

    def log(self):
        return self.guest.sh("cat /run/quiver.log", check=False)

    def kill(self):
        self.guest.sh("pid=$(cat /run/quiver.pid); kill -9 $pid; wait $pid", check=False)

    def finish(self):
        """Ends all that there is."""
        log = self.guest.sh("cat /run/quiver.log /run/console", check=False)
        # With what keeps links for the next one.
        self.guest.sh("killall -9 quiver; while pidof quiver; do sleep 0.1; done", check=False)
        self.guest.sh("ip netns delete dp; ip netns delete peer", check=False)
        # The namespace goes a little later than its name.
        self.guest.sh("ip link delete w0", check=False)
        assert "panicked" not in log, log
