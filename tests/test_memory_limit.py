"""Where memory ends, a command is refused and the router goes on."""

import re
import resource

import pytest

from lab import CommandFailed

SETUP = """
create null interface name n0
set interface ip address n0 10.0.9.1/24
set interface ip address n0 2001:db8:9::1/64
set interface state n0 up
mpls table add 0
set interface mpls n0 enable
"""
MIB = 1 << 20


def size(router):
    """Bytes of address space that the process has."""
    with open(f"/proc/{router.process.pid}/status", encoding="ascii") as file:
        return int(re.search(r"VmSize:\s+(\d+)", file.read())[1]) * 1024


def limit(router, more):
    """Lets the process have so many bytes more than it has, or as many as it likes."""
    most = resource.RLIM_INFINITY if more is None else size(router) + more
    resource.prlimit(router.process.pid, resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))


def routes(router):
    """How many routes there are of both families."""
    text = router.cli("show ip fib summary") + router.cli("show ip6 fib summary")
    return sum(int(count) for count in re.findall(r"^\s+\d+\s+(\d+)$", text, re.M))


def labels(router):
    return sum(table["labels"] for table in router.cli_json("show mpls table")["tables"])


def lines_of(count, line):
    return "".join(line.format(at=at, a=16 + (at >> 16), b=at >> 8 & 255, c=at & 255) + "\n" for at in range(count))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "ip route add count 1000000 {first}.0.0.0/28 via 10.0.9.2",
        "ip route add count 1000000 2001:db9:{first}::/64 via 2001:db8:9::2",
        "mpls local-label add count 900000 {first} eos via 10.0.9.2 n0",
        "ip route load DIR/routes table {first}",
        "exec DIR/routes-in-parts",
        "load DIR/configuration",
    ],
)
def test_a_command_that_finds_no_memory_is_refused_and_the_router_goes_on(lab, command):
    router = lab.router(SETUP)
    (router.directory / "routes").write_text(lines_of(1_000_000, "{a}.{b}.{c}.0/24 via 10.0.9.2"))
    some = "".join(f"ip route add count 65536 {first}.0.0.0/32 via 10.0.9.{first}\n" for first in range(20, 220))
    (router.directory / "routes-in-parts").write_text(some)
    (router.directory / "configuration").write_text(router.cli("show running-config") + some)
    limit(router, 100 * MIB)
    said = ""
    for first in range(20, 220, 16):
        if "load DIR" in command:
            router.cli(f"ip table add {first}")
        before = routes(router), labels(router)
        try:
            router.cli(command.format(first=first).replace("DIR", str(router.directory)))
        except CommandFailed as error:
            said = str(error)
            break
    assert "no memory" in said, said
    after = routes(router), labels(router)
    if "exec" not in command:
        assert after == before, "nothing is half done"
    assert "quiver" in router.cli("show version")
    assert "n0" in router.cli("show interface")
    # What takes less is done.
    router.cli("set interface state n0 down")
    router.cli("set interface state n0 up")
    # And with memory, more.
    limit(router, None)
    router.cli("ip route add count 100000 200.0.0.0/28 via 10.0.9.2")
    assert sum((routes(router), labels(router))) >= sum(after) + 100_000
    assert not list(router.directory.glob("quiver-crash-*"))
