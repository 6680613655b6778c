"""Figures of the Linux control plane, measured on the release build (`make figures`, as root).

Full table: a BIRD on the wire announces routes by BGP to a BIRD in Linux, which gives them to the kernel. The clock
runs from the moment the session is up. It is read when the kernel has all routes, and when the router has them. Beside
it the same without a router. Meanwhile a host sends a datagram each millisecond through the router to another one.
"""

import os
import pathlib
import statistics
import sys
import tempfile
import threading
import time
from socket import SOCK_DGRAM

import lab as bench
from test_linux_daemons import Bird

RELEASE = pathlib.Path(os.environ.get("QUIVER", bench.ROOT / "target/release/quiver"))
FOUR, SIX = int(os.environ.get("ROUTES4", "1000000")), int(os.environ.get("ROUTES6", "200000"))
TURNS = int(os.environ.get("TURNS", "3"))
PORT = 4000

DAEMON = """
log "/dev/null" all;
router id {local};
protocol device {{ scan time 10; }}
protocol bgp peer {{
    local {local} as {own};
    neighbor {remote} as {other};
    ipv4 {{ import all; export where source = RTS_STATIC; next hop self; }};
    ipv6 {{ import all; export where source = RTS_STATIC; next hop address {local6}; }};
}}
"""
KERNEL = """
protocol kernel k4 { ipv4 { import none; export where source = RTS_BGP; }; }
protocol kernel k6 { ipv6 { import none; export where source = RTS_BGP; }; }
"""


def statics():
    """Prefixes /24 from 32.0.0.0 on, and /48 from 2400:: on, that lead nowhere in the neighbour."""
    four = "".join(
        f"route {32 + number // 65536}.{number // 256 % 256}.{number % 256}.0/24 blackhole;\n" for number in range(FOUR)
    )
    six = "".join(f"route {0x2400 + number // 65536:x}:{number % 65536:x}::/32 blackhole;\n" for number in range(SIX))
    return f"protocol static s4 {{ ipv4; {four} }}\nprotocol static s6 {{ ipv6; {six} }}\n"


def in_kernel(host):
    """How many routes of both families the kernel has."""
    with host.inside():
        trie = pathlib.Path("/proc/thread-self/net/fib_triestat").read_text()
        six = pathlib.Path("/proc/thread-self/net/rt6_stats").read_text()
    main = trie.split("Main:")[-1]
    four = int(main.split("Prefixes:")[1].split()[0])
    return four, int(six.split()[3], 16)


class Stream:
    """Datagrams from one host to another, one each millisecond, and how many came."""

    def __init__(self, source, sink):
        self.sent, self.came, self.running = 0, 0, True
        self.out = source.socket(SOCK_DGRAM)
        self.into = sink.socket(SOCK_DGRAM, ("10.0.2.2", PORT), timeout=0.5)
        self.threads = [threading.Thread(target=work) for work in (self.send, self.receive)]
        for thread in self.threads:
            thread.start()

    def send(self):
        while self.running:
            self.out.sendto(b"x" * 100, ("10.0.2.2", PORT))
            self.sent += 1
            time.sleep(0.001)

    def receive(self):
        while True:
            try:
                self.into.recv(2048)
                self.came += 1
            except TimeoutError:
                if not self.running:
                    return

    def stop(self):
        self.running = False
        for thread in self.threads:
            thread.join()
        return self.sent - self.came


def seconds_of(stat):
    """A thread's or process' name, and for how many seconds it had a core."""
    name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
    return name, sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")


def shares(router, here, there):
    """Who had the cores: the threads of the router, and both BIRDs."""
    tasks = pathlib.Path(f"/proc/{router.process.pid}/task").glob("*/stat")
    all_of_them = [seconds_of(stat) for stat in tasks]
    birds = [("BIRD in Linux", here), ("BIRD on the wire", there)]
    all_of_them += [(name, seconds_of(pathlib.Path(f"/proc/{bird.process.pid}/stat"))[1]) for name, bird in birds]
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in all_of_them if seconds >= 0.1)


def session(here, there, kernel_has, router_has):
    """Brings the session up. Gives the seconds until the kernel had all routes, and until the router had them."""
    here.say("enable", "peer")
    bench.wait_until(lambda: "Established" in here.say("show", "protocols", "peer"), "BGP is up", 60, pause=0.01)
    began, kernel, router = time.monotonic(), None, None
    while kernel is None or router is None:
        if kernel is None and kernel_has():
            kernel = time.monotonic() - began
        if router is None and router_has():
            router = time.monotonic() - began
        assert time.monotonic() - began < 300, "the routes do not come"
        # To count its routes the kernel walks over all of them.
        time.sleep(0.25)
    return kernel, router


def full_table(with_router):
    lab = bench.Lab()
    lost, waited, memory = None, None, None
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        try:
            linux, peer = lab.host("linux"), lab.host("peer")
            if with_router:
                router = lab.router(binary=RELEASE)
                router.cli(f"lcp default netns {linux.namespace}")
                hosts = [lab.host("h1"), lab.host("h2")]
                router.attach(peer, "e0", "tap", "192.0.2.2/24")
                for number, host in enumerate(hosts, 1):
                    router.attach(host, f"e{number}", "tap", f"10.0.{number}.2/24")
                    host.ip("route", "add", "default", "via", f"10.0.{number}.1")
                    router.cli(f"set interface ip address e{number} 10.0.{number}.1/24")
                    router.cli(f"set interface state e{number} up")
                router.cli("lcp create e0 host-if xe0")
            else:
                peer.ip("link", "add", "eth0", "type", "veth", "peer", "name", "xe0", "netns", linux.namespace)
                peer.ip("link", "set", "eth0", "up")
                peer.ip("address", "add", "192.0.2.2/24", "dev", "eth0")
            linux.ip("link", "set", "xe0", "up")
            linux.ip("address", "add", "192.0.2.1/24", "dev", "xe0")
            linux.speak_ip6("2001:db8:1::1/64", "xe0")
            peer.speak_ip6("2001:db8:1::2/64")
            time.sleep(2)
            ends = [("192.0.2.1", "2001:db8:1::1", 64500), ("192.0.2.2", "2001:db8:1::2", 64501)]
            texts = []
            for (local, local6, own), (remote, _, other) in (ends, ends[::-1]):
                texts.append(DAEMON.format(local=local, local6=local6, own=own, remote=remote, other=other))
            there = Bird(peer, directory, texts[1] + statics())
            disabled = texts[0].replace("protocol bgp peer {", "protocol bgp peer { disabled;")
            here = Bird(linux, directory, disabled + KERNEL)
            four, six = in_kernel(linux)
            all_there = lambda: in_kernel(linux)[0] - four >= FOUR and in_kernel(linux)[1] - six >= SIX

            def router_has():
                shown = router.cli_json("show lcp netlink")[0]
                return shown["prefixes"] >= FOUR + SIX and shown["backlog"] == 0 and shown["routes"] >= FOUR + SIX

            stream = Stream(*hosts) if with_router else None
            times = session(here, there, all_there, router_has if with_router else lambda: True)
            if with_router:
                lost = stream.stop()
                shown = router.cli_json("show lcp netlink")[0]
                differences = router.cli_json("show lcp audit")["differences"]
                print(f"  overruns {shown['overruns']}, batches {shown['batches']}, differences {differences}")
                print(f"  longest lag {shown['longest_lag_us'] / 1000:.0f} ms")
                print(f"  seconds of a core, the audit included: {shares(router, here, there)}")
            return times, lost
        finally:
            lab.tear_down()


def main():
    print(f"{FOUR} routes of IPv4 and {SIX} of IPv6, seconds from the session on:")
    alone, kernel, router = [], [], []
    for turn in range(TURNS):
        (seconds, _), _ = full_table(False)
        alone.append(seconds)
        (seconds, all_of_it), lost = full_table(True)
        kernel.append(seconds)
        router.append(all_of_it)
        print(f"  turn {turn + 1}: Linux alone {alone[-1]:.2f}, with the router {seconds:.2f}, router {all_of_it:.2f},"
              f" {lost} packets of others lost", flush=True)
    for name, values in [("Linux alone", alone), ("Linux with the router", kernel), ("the router", router)]:
        print(f"  {name:22} {min(values):6.2f} {statistics.median(values):6.2f} {max(values):6.2f}")


if __name__ == "__main__":
    sys.exit(main())
