"""TCP and UDP between two hosts, with every byte compared."""

import hashlib
import json
import os
import random
import socket
import threading
from socket import AF_INET, AF_INET6, SOCK_DGRAM, SOCK_STREAM

import pytest

from conftest import require
from lab import wait_until

FILE_SIZE = 20_000_000
DATAGRAMS = 2000


def transfer(sender, receiver, address, data):
    """Sends bytes over TCP; gives what arrived."""
    family = AF_INET6 if ":" in address else AF_INET
    listener = receiver.socket(SOCK_STREAM, (address, 5000), timeout=30, family=family)
    listener.listen(1)
    client = sender.socket(SOCK_STREAM, timeout=30, family=family)
    arrived = bytearray()

    def receive():
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            while chunk := connection.recv(1 << 20):
                arrived.extend(chunk)

    thread = threading.Thread(target=receive)
    thread.start()
    client.connect((address, 5000))
    client.sendall(data)
    client.shutdown(socket.SHUT_WR)
    thread.join(60)
    return bytes(arrived)


def echo(host, address, stop):
    """Returns datagrams to where they came from, until told to stop."""
    serving = host.socket(SOCK_DGRAM, (address, 6000), timeout=0.1)

    def serve():
        while not stop.is_set():
            try:
                data, sender = serving.recvfrom(65536)
                serving.sendto(data, sender)
            except TimeoutError:
                pass

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def test_a_file_arrives_over_tcp_as_it_was_sent(two_hosts):
    _, h1, h2 = two_hosts
    data = os.urandom(FILE_SIZE)
    for sender, receiver, address in ((h1, h2, "10.0.2.2"), (h2, h1, "10.0.1.2")):
        arrived = transfer(sender, receiver, address, data)
        assert len(arrived) == FILE_SIZE
        assert hashlib.sha256(arrived).digest() == hashlib.sha256(data).digest()
    for host in (h1, h2):
        assert host.counter("TcpInCsumErrors") == 0


def test_datagrams_of_all_sizes_come_back_as_they_were_sent(two_hosts):
    _, h1, h2 = two_hosts
    chance = random.Random(4)
    stop = threading.Event()
    server = echo(h2, "10.0.2.2", stop)
    try:
        asking = h1.socket(SOCK_DGRAM)
        asking.connect(("10.0.2.2", 6000))
        for number in range(DATAGRAMS):
            data = chance.randbytes(chance.randint(0, 1472))
            asking.send(data)
            assert asking.recv(2048) == data, f"datagram {number} of {len(data)} bytes"
    finally:
        stop.set()
        server.join()
    for host in (h1, h2):
        assert host.counter("UdpInCsumErrors") == 0


def test_datagrams_in_fragments_come_back_as_they_were_sent(two_hosts):
    _, h1, h2 = two_hosts
    chance = random.Random(5)
    stop = threading.Event()
    server = echo(h2, "10.0.2.2", stop)
    try:
        asking = h1.socket(SOCK_DGRAM)
        asking.connect(("10.0.2.2", 6000))
        for size in (1473, 2000, 2961, 9000, 40_000, 65_507):
            data = chance.randbytes(size)
            asking.send(data)
            assert asking.recv(65536) == data, f"{size} bytes"
    finally:
        stop.set()
        server.join()


def iperf3(client, server, address, *options):
    """One second of iperf3; its report."""
    require("iperf3")
    serving = server.start("iperf3", "--server", "--one-off", "--bind", address, stdout=-3, stderr=-3)
    wait_until(lambda: ":5201" in server.run("ss", "-Hltn").stdout, "iperf3 listens")
    done = client.run("iperf3", "--client", address, "--time", 1, "--json", *options)
    serving.wait(10)
    return json.loads(done.stdout)["end"]


@pytest.mark.parametrize("direction", ["there", "back"])
def test_iperf3_tcp_passes(two_hosts, direction):
    router, h1, h2 = two_hosts
    report = iperf3(h1, h2, "10.0.2.2", *(["--reverse"] if direction == "back" else []))
    received = report["sum_received"]["bytes"]
    assert received > 10_000_000
    assert router.counters("e0" if direction == "there" else "e1")["rx_bytes"] > received


def test_iperf3_udp_passes_without_loss(two_hosts):
    _, h1, h2 = two_hosts
    report = iperf3(h1, h2, "10.0.2.2", "--udp", "--bitrate", "20M", "--length", 1400)
    assert report["sum"]["packets"] > 1000
    assert report["sum"]["lost_packets"] == 0


def test_many_connections_at_once_pass(two_hosts):
    _, h1, h2 = two_hosts
    report = iperf3(h1, h2, "10.0.2.2", "--parallel", 8)
    assert all(stream["receiver"]["bytes"] > 100_000 for stream in report["streams"])


def test_tcp_finds_a_smaller_mtu_on_the_way(two_hosts):
    router, h1, h2 = two_hosts
    router.cli("set interface mtu packet 1000 e1")
    data = os.urandom(1_000_000)
    assert transfer(h1, h2, "10.0.2.2", data) == data
