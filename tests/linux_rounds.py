"""Rounds of harm to the Linux control plane: after each the router must have what Linux has.

BIRD on the wire announces routes to a BIRD in Linux, which gives them to the kernel. The receive buffer of the router
is so small that Linux has to drop messages. `test_linux_rounds.py` runs a few rounds with few routes; as a program
(`make figures`, as root) this runs many on the release build, and prints what memory the router has after each.
"""

import os
import pathlib
import sys
import tempfile
import time

import lab as bench
from test_linux_daemons import Bird, configured, joined, statics, without_bfd

RELEASE = pathlib.Path(os.environ.get("QUIVER", bench.ROOT / "target/release/quiver"))
FOUR, SIX = int(os.environ.get("ROUTES4", "100000")), int(os.environ.get("ROUTES6", "20000"))
ROUNDS = int(os.environ.get("ROUNDS", "20"))

SECTIONS = "linux-cp { hold-time 30 } linux-nl { rx-buffer-size 4096 }"
# BIRD looks every two seconds whether Linux still has its routes.
KERNEL = """
protocol kernel kernel4 { ipv4 { import none; export where source != RTS_DEVICE; }; scan time 2; }
protocol kernel kernel6 { ipv6 { import none; export where source != RTS_DEVICE; }; scan time 2; }
"""


class Rounds:
    """The router, both BIRDs, and what each round does."""

    def __init__(self, lab, directory, four, six, **options):
        self.many = four + six
        self.joined = joined(lab, directory, "af_packet", SECTIONS, **options)
        self.router, self.linux, self.peer, self.host, self.directory = self.joined
        self.saved = self.router.cli("show running-config")
        # The neighbour outlives whatever happens here, so that only its routes come anew.
        text = configured("eth0", 64501, 64500, "192.0.2.2", "192.0.2.1", statics(four, six))
        self.there = Bird(self.peer, directory, silent(text))
        self.start_bird()
        self.settle(True)

    def start_bird(self):
        text = configured("xe0", 64500, 64501, "192.0.2.1", "192.0.2.2", KERNEL)
        self.here = Bird(self.linux, self.directory, silent(text))

    def withdraw(self):
        self.there.say("disable", "s4")
        self.there.say("disable", "s6")

    def announce(self):
        self.there.say("enable", "s4")
        self.there.say("enable", "s6")

    def heard(self):
        return self.router.cli_json("show lcp netlink")[0]

    def in_the_middle(self):
        """Waits until some of the routes came, and not all."""
        bench.wait_until(lambda: self.heard()["prefixes"] > self.many // 10, "some routes came", seconds=60, pause=0.01)

    # The kinds of rounds.

    def withdraw_and_announce(self):
        self.withdraw()
        self.settle(False)
        self.announce()

    def kill_bird(self):
        self.withdraw()
        self.settle(False)
        self.announce()
        self.in_the_middle()
        self.here.process.kill()
        self.here.process.wait()
        self.here.socket.unlink()
        self.start_bird()

    def flush(self):
        self.linux.ip("route", "flush", "proto", "bird")
        self.linux.ip("-6", "route", "flush", "proto", "bird")

    def overrun(self):
        """Many changes at once, which end as they began."""
        before = self.heard()["overruns"]
        lines = [f"route {{}} 101.{n // 256}.{n % 256}.0/24 via 10.0.2.2 dev xe1" for n in range(20000)]
        batch = self.directory / "batch"
        for _ in range(10):
            batch.write_text("\n".join([line.format("add") for line in lines] + [line.format("del") for line in lines]))
            self.linux.ip("-batch", str(batch))
            if self.heard()["overruns"] > before:
                return
        assert False, "Linux dropped no message"

    def kill_router(self):
        self.withdraw()
        self.settle(False)
        self.announce()
        self.in_the_middle()
        self.router.kill()
        self.router.start()
        self.router.batch(self.saved)

    KINDS = [withdraw_and_announce, kill_bird, flush, overrun]

    def settle(self, all_there):
        """All routes are there, or none, and the router has what Linux has. Gives for how long it had not, from when
        Linux was quiet on."""
        wanted = self.many + 1 if all_there else 0
        quiet = lambda: in_linux(self.linux) == wanted
        bench.wait_until(quiet, f"Linux has {wanted} routes", seconds=120, pause=0.1)
        began = time.monotonic()
        agrees = lambda: self.router.cli_json("show lcp audit")["differences"] == 0
        bench.wait_until(agrees, "the router has what Linux has", seconds=60, pause=0.01)
        took = time.monotonic() - began
        audit = self.router.cli_json("show lcp audit")
        assert audit["routes"] == wanted, audit
        return took

    def memory(self):
        """Mebibytes that the router has."""
        status = pathlib.Path(f"/proc/{self.router.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def silent(text):
    return without_bfd(text).replace("log stderr", 'log "/dev/null"')


def in_linux(host):
    """How many routes BIRD has in the kernel, of both families."""
    with host.inside():
        four = bench.run("ip", "-4", "route", "show", "proto", "bird").stdout.count("\n")
        six = bench.run("ip", "-6", "route", "show", "proto", "bird").stdout.count("\n")
    return four + six


def main():
    lab = bench.Lab()
    with tempfile.TemporaryDirectory() as name:
        try:
            rounds = Rounds(lab, pathlib.Path(name), FOUR, SIX, binary=RELEASE)
            print(f"{FOUR} routes of IPv4 and {SIX} of IPv6; {rounds.memory():.1f} MiB")
            kills = max(ROUNDS // 5, 1)
            kinds = [Rounds.KINDS[number % len(Rounds.KINDS)] for number in range(ROUNDS - kills)]
            for number, kind in enumerate(kinds + [Rounds.kill_router] * kills, 1):
                kind(rounds)
                took = rounds.settle(True)
                print(f"  round {number:2} {kind.__name__:22} in order after {took:5.2f} s, {rounds.memory():7.1f} MiB,"
                      f" overruns {rounds.heard()['overruns']}", flush=True)
        finally:
            lab.tear_down()


if __name__ == "__main__":
    sys.exit(main())
