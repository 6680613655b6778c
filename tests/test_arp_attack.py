"""A scan of a /16 of absent hosts at full rate: bounded, and nobody else is hurt."""

import threading
from socket import inet_aton

import pytest

from lab import wait_until

ROUNDS = 3
# Packets that may wait on a worker for neighbours, see docs/guide/neighbours.md.
HELD = 2048


def checksum(header):
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def scan(wire, station, host, source, stop):
    """Packets from `source` to one host after the other of 10.50.0.0/16."""
    link = bytes.fromhex((station + host).replace(":", "")) + b"\x08\x00"
    number = 0
    while not stop.is_set():
        number = number % 65_000 + 1
        target = inet_aton(f"10.50.{number >> 8}.{number & 255}")
        header = bytearray(bytes.fromhex("4500001c000000004011") + b"\0\0" + inet_aton(source) + target)
        header[10:12] = checksum(bytes(header))
        try:
            wire.send(link + bytes(header) + bytes.fromhex("0001000200080000"))
        except OSError:
            pass  # the queue is full: as fast as it goes


@pytest.mark.slow
def test_a_scan_of_absent_hosts_hurts_nobody_else(lab, driver):
    router, h1, h2 = lab.two_hosts(driver)
    router.cli("set interface ip address e1 10.50.0.1/16")
    h2.ip("address", "add", "10.50.255.250/16", "dev", "eth0")
    h1.ip("address", "add", "10.0.1.3/24", "dev", "eth0")
    # The scanner has a wire of its own: what its own host loses says nothing of the router.
    h3 = lab.host("h3")
    router.attach(h3, "e2", driver, "10.0.3.2/24")
    router.cli("set interface ip address e2 10.0.3.1/24")
    router.cli("set interface state e2 up")
    assert h3.reaches("10.0.3.1", count=1)
    station = router.cli_json("show hardware-interfaces e2")["interfaces"][0]["mac"]
    wire = h3.frames()
    before = router.counters("e2")["rx_packets"]
    stop = threading.Event()
    scanner = threading.Thread(target=scan, args=(wire, station, h3.mac(), "10.0.3.2", stop))
    scanner.start()
    try:
        wait_until(lambda: router.errors().get("too many packets wait for neighbours", 0) > 1000, "the scan is met")
        held = []
        # Sources are told apart by a hash: one in so many shares the scanner's lot, hardly two.
        whole = [source for source in ("10.0.1.2", "10.0.1.3") if h1.reaches("10.50.255.250", "-I", source, count=5)]
        assert whole, "two sources met the scanner's limit"
        for _ in range(ROUNDS):
            # New neighbours each time: on the interface that is scanned, and on the other. Nothing is lost.
            for address in ("10.50.255.250", "10.0.2.2"):
                assert h1.reaches(address, "-I", whole[0], count=5), address
            assert h2.reaches("10.0.1.2", "-I", "10.0.2.2", count=5)
            held.append(router.cli_json("show ledger")["held"])
            asked = sum(known["flags"] in ("P", "F") for known in router.neighbours().values())
            router.cli("clear ip neighbors")
        pool = router.cli_json("show buffers")
    finally:
        stop.set()
        scanner.join()
    assert router.counters("e2")["rx_packets"] - before > 5000, "the scan was no flood"
    assert max(held) <= HELD, held
    assert pool["used"] <= 2 * HELD, pool
    assert asked <= 4096 + HELD, asked
    # All that waited is told or counted in the end.
    wait_until(lambda: router.cli_json("show ledger")["held"] == 0, "nothing is held any more", seconds=15)
