"""The DHCP client against dnsmasq: a lease, the way that it opens, its renewal and its end.

h1 (192.0.2.1, dnsmasq; 198.51.100.1) ---- wan [ router ] lan ---- h2 (10.0.2.2)
                                          by DHCP        10.0.2.1
"""

import shutil

import pytest

from lab import wait_until

DNSMASQ = shutil.which("dnsmasq", path="/usr/sbin:/usr/bin:/sbin:/bin")
pytestmark = pytest.mark.skipif(DNSMASQ is None, reason="needs dnsmasq-base (make deps)")


def client(router):
    return router.cli_json("show dhcp client")["clients"][0]


def serve(host, directory, network, *options):
    """dnsmasq as a DHCP server only, for 120 s, its shortest lease; gives it when it serves."""
    log = directory / "dnsmasq.log"
    log.unlink(missing_ok=True)
    server = host.start(
        DNSMASQ,
        "--keep-in-foreground",
        "--conf-file=/dev/null",
        "--port=0",
        "--interface=eth0",
        "--bind-interfaces",
        f"--dhcp-range={network}.50,{network}.60,255.255.255.0,120",
        f"--dhcp-option=option:router,{network}.1",
        "--dhcp-option=option:dns-server,192.0.2.53",
        "--dhcp-authoritative",
        "--no-ping",
        "--log-dhcp",
        f"--dhcp-leasefile={directory}/leases",
        f"--log-facility={log}",
        "--user=root",
        *options,
    )
    wait_until(lambda: "DHCP, IP range" in said(directory), "dnsmasq serves")
    return server


def said(directory):
    """What dnsmasq wrote into its log."""
    log = directory / "dnsmasq.log"
    return log.read_text() if log.exists() else ""


@pytest.fixture
def bench(lab, driver):
    router, h1, h2 = lab.router(), lab.host("h1"), lab.host("h2")
    router.attach(h1, "wan", driver, "192.0.2.1/24")
    router.attach(h2, "lan", driver, "10.0.2.2/24")
    router.batch("set interface ip address lan 10.0.2.1/24\nset interface state lan up\n")
    h1.ip("address", "add", "198.51.100.1/32", "dev", "lo")
    h2.ip("route", "add", "default", "via", "10.0.2.1")
    return router, h1, h2


@pytest.mark.slow
def test_a_lease_of_dnsmasq_is_taken_used_renewed_and_given_back(bench):
    router, h1, h2 = bench
    directory = router.directory
    # Renewal (T1) after three seconds, in place of a minute.
    serve(h1, directory, "192.0.2", "--dhcp-option=58,3", "--dhcp-option=59,100")
    router.batch("set interface state wan up\nset dhcp client intfc wan hostname edge1\n")
    wait_until(lambda: client(router)["state"] == "DHCP_BOUND", "an address is leased", seconds=15)
    known = client(router)
    address = known["address"].split("/")[0]
    assert address.startswith("192.0.2.5") or address == "192.0.2.60"
    assert known["address"].endswith("/24")
    assert (known["gateway"], known["server"], known["dns"]) == ("192.0.2.1", "192.0.2.1", ["192.0.2.53"])
    assert "edge1" in (directory / "leases").read_text()
    assert "is leased by 192.0.2.1 for 120 s" in router.log()
    # Hosts on the wire reach it, and it passes on what goes to where only the default route leads.
    assert h1.reaches(address)
    h1.ip("route", "add", "10.0.2.0/24", "via", address)
    assert h2.reaches("198.51.100.1")
    assert address not in router.cli("show running-config")

    acknowledged = f"DHCPACK(eth0) {address}"
    wait_until(lambda: said(directory).count(acknowledged) >= 2, "the lease is renewed", seconds=15)
    assert client(router)["address"] == f"{address}/24"
    assert h2.reaches("198.51.100.1")

    router.cli("set dhcp client del intfc wan")
    wait_until(lambda: f"DHCPRELEASE(eth0) {address}" in said(directory), "the server hears that the address is free")
    assert address not in router.cli("show interface address")
    assert "0.0.0.0/0" not in router.cli("show ip fib")
    assert not h1.reaches(address, count=1, wait=1)


def test_a_server_that_does_not_know_the_client_makes_it_begin_anew(bench):
    router, h1, _ = bench
    directory = router.directory
    first = serve(h1, directory, "192.0.2")
    router.batch("set interface state wan up\nset dhcp client intfc wan\n")
    wait_until(lambda: client(router)["state"] == "DHCP_BOUND", "an address is leased", seconds=15)
    first.kill()
    first.wait()
    # The network is another from now on; the client hears of it when its link comes back.
    h1.ip("address", "replace", "203.0.113.1/24", "dev", "eth0")
    h1.ip("address", "del", "192.0.2.1/24", "dev", "eth0")
    serve(h1, directory, "203.0.113")
    router.batch("set interface state wan down\nset interface state wan up\n")
    wait_until(lambda: (client(router)["address"] or "").startswith("203.0.113."), "it has a new address", seconds=20)
    assert "DHCPNAK(eth0) 192.0.2." in said(directory)
    assert "192.0.2." not in router.cli("show interface address")
    assert h1.reaches(client(router)["address"].split("/")[0])
