"""The load tester's methods: each finds what was planted in a device that is known, and writes what others read."""

import json
import pathlib

import pytest

from lab import QUIVER, run

# Quick ones: what is looked at is not how long they take.
SHORT = ("--interval", "0.2", "-wd", "0.4", "-rd", "2", "-hd", "0.4")


def ramp(*words, check=True):
    return run(QUIVER, "loadtest", "ramp", *words, check=check)


def test_a_ramp_finds_the_capacity_that_was_planted(tmp_path):
    file = tmp_path / "session.json"
    ramp("--dut", "reference:capacity=100kpps,queue=2000", "-p", "bench", "--speed", "400m", "--direction", "uni", *SHORT, "--session", file)
    session = json.loads(file.read_text())
    assert session["format"] == "quiver-loadtest-session/1" and "loadtest ramp" in session["command"]
    (test,) = session["tests"]
    assert test["method"] == "ramp" and test["line_bps"] == 4e8
    # It goes up by 60 kpps in a sample, so the first that has loss may have had the limit anywhere in it.
    for overload in (test["first_loss"], test["overload"]):
        assert 90e3 < overload["sent_pps"] < 200e3 and overload["loss"] > 0.001, overload
    assert 90e3 < test["max_pps"] < 110e3
    # In a straight line up to the whole line, and it stays there: what was due, as a machine with other things to do sends less.
    ports = [point["ports"][0] for point in test["points"]]
    sent = [port["sent_percent"] * (1 + port["not_sent_pps"] / port["sent_pps"]) for port in ports]
    assert sent[0] < 0.3 and all(a <= b + 20 for a, b in zip(sent, sent[1:])), sent
    assert 95 < max(sent) < 105


def test_a_ramp_without_loss_says_never(tmp_path):
    done = ramp("--dut", "reference:", "-p", "bench", "--speed", "100m", "--direction", "uni", *SHORT, "-o", tmp_path / "out.json")
    assert "first loss above 0.1 %  never" in done.stderr
    assert "and to the end          never" in done.stderr


def test_the_json_is_what_readers_of_trex_loadtest_expect(tmp_path):
    file = tmp_path / "out.json"
    ramp("-s", "127.0.0.1", "-p", "imix.py", "-o", file, "-wm", "2kpps", "-rt", "50", *SHORT, "--dut", "reference:", "--speed", "100m")
    data = json.loads(file.read_text())
    assert list(data) == ["vars", "stats"]
    assert data["vars"] == {
        "profile_file": "imix.py", "warmup_mult": "2kpps", "warmup_duration": 0.4, "rampup_target": 50.0, "rampup_duration": 2.0, "hold_duration": 0.4
    }
    times = [float(at) for at in data["stats"]]
    assert times == sorted(times) and 10 <= len(times) <= 15 and 2.6 < times[-1] < 3.2
    for ports in data["stats"].values():
        assert list(ports) == ["0", "1"]
        for port in ports.values():
            assert list(port) == ["tx_pps", "rx_pps", "tx_bps", "rx_bps", "tx_bps_L1", "rx_bps_L1", "tx_util", "rx_util"]
            # Readers in Ruby divide them: whole numbers would be rounded.
            assert all(isinstance(value, float) for value in port.values())
    last = max(list(data["stats"].values())[-3:], key=lambda ports: ports["0"]["tx_util"])
    for mine, other in (("0", "1"), ("1", "0")):
        # Less where the machine had other things to do.
        assert 20 < last[mine]["tx_util"] < 52
        assert last[other]["rx_pps"] == pytest.approx(last[mine]["tx_pps"], rel=0.1)
        # 4 of 5 packets are short: 24 bytes on the wire beside what is in the buffer.
        assert last[mine]["tx_bps_L1"] - last[mine]["tx_bps"] == pytest.approx(last[mine]["tx_pps"] * 24 * 8, rel=1e-6)
        assert last[mine]["tx_util"] == pytest.approx(100 * last[mine]["tx_bps_L1"] / 100e6, rel=1e-6)
    first = list(data["stats"].values())[0]
    assert first["0"]["tx_pps"] == pytest.approx(2000, rel=0.2)


def test_a_ramp_in_one_direction_says_so():
    data = json.loads(ramp("-p", "bench", *SHORT, "--dut", "reference:", "--speed", "10m", "--direction", "uni").stdout)
    assert data["vars"]["unidirectional"] is True
    assert all(ports["1"]["tx_pps"] == 0 and ports["0"]["rx_pps"] == 0 for ports in data["stats"].values())


def test_under_the_scripts_name_it_takes_the_scripts_words(tmp_path):
    link = tmp_path / "trex-loadtest"
    link.symlink_to(pathlib.Path(QUIVER).resolve())
    said = run(link, "--help").stdout
    for flag, default in (
        ("--server", "127.0.0.1"), ("--profile", "imix"), ("--output", "-"), ("--warmup_mult", "1kpps"), ("--warmup_duration", "30"),
        ("--rampup_target", "100"), ("--rampup_duration", "600"), ("--hold_duration", "30"),
    ):
        assert f"{flag} " in said and f"[default: {default}]" in said, flag
    done = run(link, "-p", "bench", "-wm", "1kpps", "-wd", "0.2", "-rt", "10%", "-rd0.4", "-hd=0.2", "--interval", "0.1", "--dut", "reference:", "--speed", "10m")
    assert json.loads(done.stdout)["vars"]["rampup_duration"] == 0.4
    done = run(link, "-s", "192.0.2.1", "--dut", "reference:", check=False)
    assert done.returncode == 1 and "there is no server to ask" in done.stderr


def test_a_ramp_for_each_number_of_queues(tmp_path):
    file = tmp_path / "out.json"
    done = ramp(
        "--dut", "quiver", "-p", "bench-var2-64b", "--speed", "100m", *SHORT, "--rx-queues", "1,2", "--workers", "2", "-o", file, "--session", tmp_path / "session.json"
    )
    assert "1 rx queue:" in done.stderr and "2 rx queues:" in done.stderr and "times" in done.stderr
    assert file.exists() and (tmp_path / "out-2-rx-queues.json").exists()
    tests = json.loads((tmp_path / "session.json").read_text())["tests"]
    assert [test["label"] for test in tests] == ["1 rx queue", "2 rx queues"]
    # With two queues each worker of the router had one, and packets of some flows in it.
    one, two = ([worker for worker in test["total"]["device_load"] if any(node["name"] == "memif-input" and node["packets"] for node in worker["nodes"])] for test in tests)
    # Each way has its queue: one worker had both, or each had one.
    assert one and len(two) == 2
    for worker in two:
        (node,) = (node for node in worker["nodes"] if node["name"] == "memif-input")
        assert node["packets"] > 0.2 * tests[1]["total"]["sent_packets"]


@pytest.mark.parametrize(
    "words, wrong",
    [
        (("--dut", "null", "--rx-queues", "2"), "are of the router under test"),
        (("--port", "null", "--port", "null"), "give `--speed'"),
        (("--dut", "null", "-rt", "0"), "percent of the line's rate"),
        (("--dut", "null", "-wm", "fast"), "`fast' is not a rate"),
        (("--dut", "null", "-p", "nonsense.py"), "no such file"),
    ],
)
def test_what_cannot_be_is_refused_in_words(words, wrong):
    done = ramp(*words, check=False)
    assert done.returncode != 0 and wrong in done.stderr, done.stderr
