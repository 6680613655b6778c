"""What only a running process can tell: its threads, its files, its devices."""

import pathlib
import re

from lab import INPUT_NODES


def test_show_threads_has_the_kernels_numbers(lab):
    router = lab.router()
    main, worker = router.cli_json("show threads")["threads"]
    tasks = pathlib.Path(f"/proc/{router.process.pid}/task").iterdir()
    # Threads that close devices come and go.
    tasks = {path.name: (path / "comm").read_text().strip() for path in tasks if (path / "comm").exists()}
    assert main["lwp"] == router.process.pid
    assert tasks[str(worker["lwp"])] == worker["name"] == "quiver_wk_0"
    assert worker["type"] == "workers" and worker["policy"] == "other" and worker["priority"] == 0
    assert worker["state"] in ("online", "asleep")
    row = router.cli("show threads").splitlines()[2]
    place = rf"{worker['lwp']:<8}other \(0\) {{16}}\d+ .*(online|asleep)"
    assert re.fullmatch(rf"1      quiver_wk_0         workers     {place}", row)


def test_a_pinned_worker_is_shown_on_its_core(lab):
    router = lab.router(extra="cpu { corelist-workers 1 }\n")
    router.cli("trace add pg-input 1")  # Wakes it: it runs where it was pinned to.
    router.cli("show trace")
    assert router.cli_json("show threads")["threads"][1]["lcore"] == 1
    assert "Thread 1 quiver_wk_0 (lcore 1)\n" in router.cli("show runtime")


def test_show_unix_files_names_sockets_and_devices(lab, driver):
    router, h1, _ = lab.two_hosts(driver)
    files = router.cli_json("show unix files")["files"]
    described = {file["description"]: file for file in files if file["description"]}
    assert str(router.socket) in described
    node = INPUT_NODES[driver]
    queue = described[f"e0 queue 0 ({node})"]
    assert queue["thread"] == 1
    assert queue["file"].startswith(
        {"tap": "/dev/net/tun", "af_packet": "socket:[", "af_xdp": "anon_inode:[eventpoll]"}[driver]
    )
    assert queue["file"] == str(pathlib.Path(f"/proc/{router.process.pid}/fd/{queue['fd']}").readlink())
    assert h1.reaches("10.0.2.2")


def test_show_hardware_interfaces_tells_what_the_device_knows(lab, driver):
    router, _, _ = lab.two_hosts(driver)
    shown = router.cli("show hardware-interfaces e0")
    if driver == "tap":
        assert "  Link speed: unknown\n" in shown
    else:
        # What the kernel says of a veth.
        assert "  Link speed: 10 Gbps\n  Duplex: full\n" in shown
    assert re.search(r"^    0 +quiver_wk_0 \(1\) +adaptive +$", shown, re.M)
    finished = "none" if driver == "af_xdp" else "checksum segmentation"
    assert f"  MTU 1500, tx offloads: {finished}\n" in shown
    node = INPUT_NODES[driver]
    expected = f"Thread 1 (quiver_wk_0):\n  node {node}:\n    e0 queue 0 (adaptive)\n    e1 queue 0 (adaptive)\n"
    assert router.cli("show interface rx-placement") == expected


def test_show_runtime_max_has_a_real_call(lab):
    router, h1, _ = lab.two_hosts("tap")
    assert h1.reaches("10.0.2.2")
    nodes = {node["name"]: node for node in router.cli_json("show runtime max verbose")["threads"][0]["nodes"]}
    lookup = nodes["ip4-lookup"]
    assert 1 <= lookup["vectors_at_max"] <= lookup["vectors"]
    assert lookup["max_node_clocks"] >= lookup["clocks"] > 0
    states = {nodes[name]["state"] for name in ("virtio-input", "pg-input")}
    assert states <= {"polling", "interrupt wait", "disabled"}


def test_show_memory_and_version_are_those_of_the_process(lab):
    router = lab.router()
    status = pathlib.Path(f"/proc/{router.process.pid}/status").read_text()
    peak = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10
    process = router.cli_json("show memory")["process"]
    assert 1 << 20 < process["resident"] <= process["peak"]
    assert process["peak"] >= peak
    started = f"Command line:             {router.binary} run --config {router.config}\n"
    assert started in router.cli("show version verbose")
    assert router.cli_json("show uptime")["seconds"] > 0
