"""A Linux peer with a kernel of its own, in an emulated machine: for what the kernel that
runs the tests may lack, such as 802.1Q.

The machine boots Debian's kernel and a shell within seconds, without a disk; its `eth0` is
a TAP device in a host's namespace. Commands go to its shell over the serial line.

    router [ e0 ]--- to-e0 (TAP, in the router's namespace) --- eth0 [ guest ]
"""

import os
import pathlib
import platform
import select
import shutil
import subprocess
import time

import pytest

from conftest import require
from lab import ROOT, run

KERNEL = ROOT / "target/guest"
MODULES = (
    "virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net "
    "llc stp garp mrp 8021q"
).split()
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in {" ".join(MODULES)}; do insmod /modules/$module.ko; done
stty -echo < /dev/ttyS0
ip link set lo up
ip link set eth0 up
echo ready
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
    if (KERNEL / "vmlinuz").exists():
        return
    if shutil.which("apt-get") is None:
        pytest.skip("needs Debian's packages, for the guest's kernel")
    fetched = run(ROOT / "scripts/guest-kernel.sh", KERNEL, check=False, timeout=300)
    if fetched.returncode != 0:
        pytest.skip(f"needs the guest's kernel, which cannot be fetched: {fetched.stderr.strip()[-200:]}")


def initial_disk(directory):
    """An archive of files that the kernel unpacks and starts: a shell and its drivers."""
    root = directory / "root"
    for name in ("bin", "proc", "sys", "dev", "modules"):
        (root / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", root / "bin/busybox")
    for module in MODULES:
        shutil.copy(KERNEL / f"modules/{module}.ko", root / "modules")
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    archive = directory / "initrd"
    with open(archive, "wb") as into:
        subprocess.run(
            ["cpio", "--create", "--format=newc", "--quiet"], input=names.encode(), stdout=into, cwd=root, check=True
        )
    return archive


class Guest:
    """The machine. Made, it runs; the lab ends it."""

    def __init__(self, lab, host, tap, directory, ip6=False):
        machine_needs()
        # Only what a test sends is on its wires.
        families = "" if ip6 else "ipv6.disable=1"
        command = (
            f"qemu-system-x86_64 -accel tcg -cpu max -m 128 -display none -serial stdio -monitor none -no-reboot "
            f"-kernel {KERNEL}/vmlinuz -initrd {initial_disk(pathlib.Path(directory))} "
            f"-netdev tap,id=wire,ifname={tap},script=no,downscript=no "
            "-device virtio-net-pci,netdev=wire,mac=02:00:00:00:00:77,romfile="
        ).split()
        self.process = host.start(
            *command,
            "-append",
            f"console=ttyS0 quiet panic=-1 {families}",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        os.set_blocking(self.process.stdout.fileno(), False)
        self.said = ""
        self.read_until("ready", 90)

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
