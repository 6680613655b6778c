"""The load tester's methods: each finds what was planted in a device that is known, and writes what others read."""

import datetime
import json
import pathlib
import re

import pytest

from conftest import require
from lab import QUIVER, run, true_or_disturbed

# Quick ones: what is looked at is not how long they take.
SHORT = ("--interval", "0.2", "-wd", "0.4", "-rd", "2", "-hd", "0.4")


def ramp(*words, check=True):
    # What is planted is found on a machine with other things to do, too: that is not what is looked at here.
    return run(QUIVER, "loadtest", "ramp", *words, "--others", "100", check=check)


@pytest.mark.alone
def test_a_ramp_finds_the_capacity_that_was_planted(tmp_path):
    file = tmp_path / "session.json"
    ramp(
        "--dut",
        "reference:capacity=100kpps,queue=2000",
        "-p",
        "bench",
        "--speed",
        "400m",
        "--direction",
        "uni",
        *SHORT,
        "--session",
        file,
    )
    session = json.loads(file.read_text())
    assert session["format"] == "quiver-loadtest-session/1" and "loadtest ramp" in session["command"]
    (test,) = session["tests"]
    assert test["method"] == "ramp" and test["line_bps"] == 4e8
    with true_or_disturbed(file):
        # It goes up by 60 kpps in a sample, so the first that has loss may have had the limit anywhere in it.
        for overload in (test["first_loss"], test["overload"]):
            assert 90e3 < overload["sent_pps"] < 200e3 and overload["loss"] > 0.001, overload
        assert 90e3 < test["max_pps"] < 110e3
        # In a straight line up to the whole line, and it stays there. This is what was due: a busy machine sends less.
        ports = [point["ports"][0] for point in test["points"]]
        sent = [port["sent_percent"] * (1 + port["not_sent_pps"] / port["sent_pps"]) for port in ports]
        assert sent[0] < 0.3 and all(a <= b + 20 for a, b in zip(sent, sent[1:])), sent
        assert 95 < max(sent) < 105


def add_up(parts, whole):
    """Samples are the run, and none of them lost what it did not send."""
    for part in parts:
        assert part["lost_packets"] <= part["sent_packets"], part
    assert sum(part["sent_packets"] for part in parts) == whole["sent_packets"]
    assert sum(part["received_packets"] + part["drained_packets"] for part in parts) == whole["received_packets"]
    assert sum(part["lost_packets"] for part in parts) == whole["lost_packets"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "device",
    [
        "reference:capacity=60kpps,queue=3000",
        "reference:lose=50,delay=150ms",
        "reference:lose=7,above=30kpps,reorder=9,by=4,duplicate=11",
        "quiver:card=40kpps",
    ],
)
def test_samples_add_up_to_the_run(tmp_path, device):
    file = tmp_path / "session.json"
    ramp("--dut", device, "-p", "bench", "--speed", "100m", *SHORT, "--session", file)
    (test,) = json.loads(file.read_text())["tests"]
    total = test["total"]
    # On a busy machine the load tester may not reach the rate at which the device begins to lose.
    assert total["lost_packets"] > 0 or not total["kept_rate"]
    add_up([port for point in test["points"] for port in point["ports"]], total)
    add_up(total["timeline"], total)
    for point in test["points"]:
        for port in point["ports"]:
            assert port["loss"] == pytest.approx(port["lost_packets"] / max(port["sent_packets"], 1))
    report = json.loads(
        run(
            QUIVER,
            "loadtest",
            "run",
            "--dut",
            device,
            "-m",
            "80kpps",
            "-d",
            "1",
            "--interval",
            "0.1",
            "--direction",
            "bi",
            "-o",
            "-",
        ).stdout
    )
    for number, port in enumerate(report["ports"]):
        before = dict.fromkeys(("sent_packets", "received_packets", "drained_packets", "lost_packets"), 0)
        parts = []
        for sample in report["samples"]:
            now = sample["ports"][number]
            parts.append({name: now[name] - (0 if name == "drained_packets" else before[name]) for name in before})
            before = now
        add_up(parts, port)


def test_a_ramp_without_loss_says_never(tmp_path):
    done = ramp(
        "--dut",
        "reference:",
        "-p",
        "bench",
        "--speed",
        "100m",
        "--direction",
        "uni",
        *SHORT,
        "-o",
        tmp_path / "out.json",
    )
    assert "first loss above 0.1 %  never" in done.stderr
    assert "and to the end          never" in done.stderr


def test_the_json_is_what_readers_of_trex_loadtest_expect(tmp_path):
    file = tmp_path / "out.json"
    ramp(
        "-s",
        "127.0.0.1",
        "-p",
        "imix.py",
        "-o",
        file,
        "-wm",
        "2kpps",
        "-rt",
        "50",
        *SHORT,
        "--dut",
        "reference:",
        "--speed",
        "100m",
    )
    data = json.loads(file.read_text())
    assert list(data) == ["vars", "stats"]
    assert data["vars"] == {
        "profile_file": "imix.py",
        "warmup_mult": "2kpps",
        "warmup_duration": 0.4,
        "rampup_target": 50.0,
        "rampup_duration": 2.0,
        "hold_duration": 0.4,
    }
    times = [float(at) for at in data["stats"]]
    assert times == sorted(times) and 10 <= len(times) <= 15 and 2.6 < times[-1] < 3.2
    for ports in data["stats"].values():
        assert list(ports) == ["0", "1"]
        for port in ports.values():
            assert list(port) == [
                "tx_pps",
                "rx_pps",
                "tx_bps",
                "rx_bps",
                "tx_bps_L1",
                "rx_bps_L1",
                "tx_util",
                "rx_util",
            ]
            # Readers in Ruby divide them: whole numbers would be rounded.
            assert all(isinstance(value, float) for value in port.values())
    last = max(list(data["stats"].values())[-3:], key=lambda ports: ports["0"]["tx_util"])
    for mine, other in (("0", "1"), ("1", "0")):
        # Less where the machine had other things to do.
        assert 2 < last[mine]["tx_util"] < 60
        assert last[other]["rx_pps"] == pytest.approx(last[mine]["tx_pps"], rel=0.4)
        # 4 of 5 packets are short: 24 bytes on the wire beside what is in the buffer.
        assert last[mine]["tx_bps_L1"] - last[mine]["tx_bps"] == pytest.approx(last[mine]["tx_pps"] * 24 * 8, rel=1e-6)
        assert last[mine]["tx_util"] == pytest.approx(100 * last[mine]["tx_bps_L1"] / 100e6, rel=1e-6)
    # In the first sample streams begin one after the other.
    first = list(data["stats"].values())[1]
    assert first["0"]["tx_pps"] == pytest.approx(2000, rel=0.5)


def test_a_ramp_in_one_direction_says_so():
    data = json.loads(ramp("-p", "bench", *SHORT, "--dut", "reference:", "--speed", "10m", "--direction", "uni").stdout)
    assert data["vars"]["unidirectional"] is True
    assert all(ports["1"]["tx_pps"] == 0 and ports["0"]["rx_pps"] == 0 for ports in data["stats"].values())


def test_under_the_scripts_name_it_takes_the_scripts_words(tmp_path):
    link = tmp_path / "trex-loadtest"
    link.symlink_to(pathlib.Path(QUIVER).resolve())
    said = run(link, "--help").stdout
    for flag, default in (
        ("--server", "127.0.0.1"),
        ("--profile", "imix"),
        ("--output", "-"),
        ("--warmup_mult", "1kpps"),
        ("--warmup_duration", "30"),
        ("--rampup_target", "100"),
        ("--rampup_duration", "600"),
        ("--hold_duration", "30"),
    ):
        assert f"{flag} " in said and f"[default: {default}]" in said, flag
    done = run(
        link,
        "-p",
        "bench",
        "-wm",
        "1kpps",
        "-wd",
        "0.2",
        "-rt",
        "10%",
        "-rd0.4",
        "-hd=0.2",
        "--interval",
        "0.1",
        "--dut",
        "reference:",
        "--speed",
        "10m",
    )
    assert json.loads(done.stdout)["vars"]["rampup_duration"] == 0.4
    done = run(link, "-s", "192.0.2.1", "--dut", "reference:", check=False)
    assert done.returncode == 1 and "there is no server to ask" in done.stderr


@pytest.mark.slow
def test_a_ramp_for_each_number_of_queues(tmp_path):
    file = tmp_path / "out.json"
    done = ramp(
        "--dut",
        "quiver",
        "-p",
        "bench-var2-64b",
        "--speed",
        "100m",
        *SHORT,
        "--rx-queues",
        "1,2",
        "--workers",
        "2",
        "-o",
        file,
        "--session",
        tmp_path / "session.json",
    )
    assert "1 rx queue:" in done.stderr and "2 rx queues:" in done.stderr and "times" in done.stderr
    assert file.exists() and (tmp_path / "out-2-rx-queues.json").exists()
    tests = json.loads((tmp_path / "session.json").read_text())["tests"]
    assert [test["label"] for test in tests] == ["1 rx queue", "2 rx queues"]
    # With two queues each worker of the router had one, and packets of some flows in it.
    one, two = (
        [
            worker
            for worker in test["total"]["device_load"]
            if any(node["name"] == "memif-input" and node["packets"] for node in worker["nodes"])
        ]
        for test in tests
    )
    # Each way has its queue: one worker had both, or each had one.
    assert one and len(two) == 2
    for worker in two:
        (node,) = (node for node in worker["nodes"] if node["name"] == "memif-input")
        assert node["packets"] > 0.2 * tests[1]["total"]["sent_packets"]


@pytest.mark.parametrize(
    "words, wrong",
    [
        (("--dut", "null", "--rx-queues", "2"), "are of the router under test"),
        (("--port", "null", "--port", "null"), "give '--speed'"),
        (("--dut", "null", "-rt", "0"), "percent of the line's rate"),
        (("--dut", "null", "-wm", "fast"), "'fast' is not a rate"),
        (("--dut", "null", "-p", "nonsense.py"), "no such file"),
    ],
)
def test_what_cannot_be_is_refused_in_words(words, wrong):
    done = ramp(*words, check=False)
    assert done.returncode != 0 and wrong in done.stderr, done.stderr


def matrix(*words, check=True):
    return run(QUIVER, "loadtest", "matrix", *words, "--others", "100", check=check, timeout=120)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """A short table of two devices, with its page."""
    directory = tmp_path_factory.mktemp("report")
    said = matrix(
        "--dut", "quiver,reference:capacity=20kpps,queue=100", "-d", "0.3", "-o", directory, "--speed", "30m"
    ).stdout
    return said, json.loads((directory / "report.json").read_text()), directory / "report.html"


@pytest.mark.slow
def test_the_table_has_each_test_of_each_device(report):
    said, session, _ = report
    assert [test["device"] for test in session["tests"]] == ["quiver", "reference"]
    names = [
        f"{way} {test}"
        for way in ("Unidirectional", "Bidirectional")
        for test in ("1514b", "64b Multi", "64b Single", "64b MPLS")
    ]
    for test in session["tests"]:
        assert [row["name"] for row in test["rows"]] == names and test["line_bps"] == 30e6
        for row in test["rows"]:
            trial = row["trial"]
            # Of lines of both ports, when both send.
            lines = 60e6 if trial["bidirectional"] else 30e6
            assert trial["percent_of_line"] == pytest.approx(100 * trial["l1_bps"] / lines)
            assert f"{row['name']} " in said
    assert "L2 bits/sec" in said and "% of Line-Rate" in said
    quiver, reference = ({row["name"]: row["trial"] for row in test["rows"]} for test in session["tests"])
    # 44.6 kpps are a full line of 64-byte frames: the device that carries 20 loses half of them, the router nothing.
    for name in names[1:4]:
        assert quiver[name]["lost_packets"] == 0 and quiver[name]["device_load"], name
        # Less where the machine had other things to do than to send.
        assert 0.1 < reference[name]["lost_share"] < 0.7, name
        assert reference[name]["verdict"]["bound"] == "unknown"
    nodes = {node["name"] for node in quiver["Unidirectional 64b MPLS"]["device_load"][0]["nodes"]}
    assert "mpls-lookup" in nodes


@pytest.mark.slow
def test_the_page_is_drawn_and_asks_nobody(report, tmp_path):
    _, session, page = report
    require("chromium")
    text = page.read_text()
    assert "<script" not in text and "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    log = tmp_path / "net.json"
    done = run(
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path}/profile",
        "--enable-logging=stderr", f"--log-net-log={log}",
        "--virtual-time-budget=2000", "--dump-dom", page.as_uri(),
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    asked = set(re.findall(r'"url":"(\w+:[^"]*)"', log.read_text()))
    # The browser itself asks its maker for the time and for updates.
    own = re.compile(r"https?://[^/]*\.(google|googleapis|gstatic)\.com/")
    assert not [url for url in asked if url.startswith(("http", "ws")) and not own.match(url)], asked
    # Each chart is there, and has something in it: bars or lines, axes with words.
    figures = dict(re.findall(r'<figure id="([^"]+)">(.*?)</figure>', done.stdout, re.DOTALL))
    assert set(figures) == {
        "comparison",
        "timeline-quiver",
        "clocks-quiver",
        "cpu-quiver",
        "latency-quiver",
        "timeline-reference",
        "latency-reference",
    }
    for name, figure in figures.items():
        assert figure.count("<rect") + figure.count("<polyline") > 5 and figure.count("<text") > 5, name
        assert "<li>" in figure, name
    for row in session["tests"][0]["rows"]:
        assert f"<td>{row['name']}</td>" in done.stdout
    assert "loadtest matrix" in done.stdout


def test_the_page_says_what_when_where_and_how_much(report):
    _, session, page = report
    text = page.read_text()
    title = re.search(r"<title>(.*?)</title>", text)[1]
    day = datetime.datetime.fromtimestamp(session["started"], datetime.timezone.utc)
    assert title == f"Load test of quiver and reference, {day.day} {day:%B %Y}" and f"<h1>{title}</h1>" in text
    machine = session["machine"]
    assert machine["host"] == pathlib.Path("/proc/sys/kernel/hostname").read_text().strip()
    for name, words in (
        ("Date", f"{day.day} {day:%B %Y}, {day:%H:%M} UTC"),
        ("Host", machine["host"]),
        ("Processor", machine["processor"]),
        ("Load", "at 30 Mbit/s"),
    ):
        assert re.search(rf'<tr><td>{name}</td><td class="words">[^<]*{re.escape(words)}', text), name
    (sentence,) = re.findall(r'<p class="summary">(.*?)</p>', text)
    assert sentence.startswith("Quiver ") and sentence.endswith(".") and "; reference" in sentence
    assert "after 1970" not in text
    # The program by its name, wherever it was.
    assert "<code>quiver loadtest matrix " in text
    # Percentiles by their names.
    latency = re.search(r'<figure id="latency-quiver">(.*?)</figure>', text, re.DOTALL)[1]
    for name in ("least", "p50", "p99", "p99.9", "p99.99", "longest"):
        assert re.search(rf">\s*{re.escape(name)}\s*</text>", latency), name
    # A device has one colour in all charts, and no other has it.
    colours = {}
    for figure in re.findall(r"<figure.*?</figure>", text, re.DOTALL):
        for colour, name in re.findall(r"background:(rgb\([\d,]+\));[^>]*></span>([^<]*)</li>", figure):
            meaning = name.replace(" received", "")
            dashed = re.sub(r"^[UB] ", "", meaning)
            colours.setdefault(colour, set()).add(
                {"offered": "sent", "waiting (epoll) and between nodes": "rest", "other nodes": "rest"}.get(
                    dashed, dashed
                )
            )
    for colour, names in colours.items():
        # A part of a worker's time has the colour of the first of its nodes.
        assert len(names - {"input", "graph", "output"}) <= 1, (colour, names)


@pytest.mark.slow
def test_sessions_are_laid_over_each_other(report, tmp_path):
    _, _, page = report
    files = [page.with_name("report.json")]
    for name, capacity in (("a", "20kpps"), ("b", "40kpps")):
        files.append(tmp_path / f"{name}.json")
        ramp(
            "--dut",
            f"reference:capacity={capacity}",
            "-p",
            "bench",
            "--speed",
            "40m",
            *SHORT,
            "-o",
            tmp_path / "out.json",
            "--session",
            files[-1],
        )
    run(QUIVER, "loadtest", "report", *files, "-o", tmp_path / "all.html")
    text = (tmp_path / "all.html").read_text()
    for name in ("comparison", "ramp-bench", "loss-bench"):
        assert f'<figure id="{name}">' in text
    # Those of the same device have names and colours of their own.
    (ramp_chart,) = re.findall(r'<figure id="ramp-bench">(.*?)</figure>', text, re.DOTALL)
    keys = re.findall(r"background:(rgb\([\d,]+\));[^>]*></span>([^<]*)</li>", ramp_chart)
    assert [name for _, name in keys] == ["sent", "reference received", "reference (2) received"] and len(
        {colour for colour, _ in keys}
    ) == 3
    files[1].write_text('{"format": "other/1"}')
    done = run(QUIVER, "loadtest", "report", files[1], check=False)
    assert f"{files[1]}: its format is 'other/1'" in done.stderr


def test_linux_is_a_device_and_leaves_nothing_behind(tmp_path):
    def left():
        return [line for line in run("ip", "netns").stdout.splitlines() if "quiver-loadtest" in line] + re.findall(
            r"qlt\w+", run("ip", "link").stdout
        )

    before = left()
    said = matrix("--dut", "kernel", "-d", "0.3", "-o", tmp_path, "--speed", "10m").stdout
    session = json.loads((tmp_path / "report.json").read_text())
    for row in session["tests"][0]["rows"]:
        if row["trial"] is None:
            assert "MPLS" in row["name"] and "no MPLS" in row["left_out"]
        else:
            assert row["trial"]["lost_packets"] == 0 and row["trial"]["received_packets"] > 100, row
    assert "L2 bits/sec" in said
    assert left() == before


@pytest.mark.slow
def test_testpmd_is_a_device(tmp_path):
    require("dpdk-testpmd")
    matrix("--dut", "testpmd", "-d", "0.3", "-o", tmp_path, "--speed", "30m")
    for row in json.loads((tmp_path / "report.json").read_text())["tests"][0]["rows"]:
        assert row["trial"]["lost_packets"] == 0 and row["trial"]["received_packets"] > 100, row


def test_a_program_of_ones_own_is_a_device_until_it_ends():
    done = run(
        QUIVER,
        "loadtest",
        "run",
        "--dut",
        "exec:sh -c 'sleep 0.5; echo worn out; exit 3'",
        "--port",
        "null",
        "--port",
        "null",
        "-d",
        "20",
        check=False,
    )
    assert done.returncode == 1
    assert "exit status: 3: worn out" in done.stderr and "what was counted until then is above" in done.stderr
    assert "exec:sh" not in run("ps", "axo", "args").stdout


@pytest.mark.slow
def test_a_device_that_cannot_be_is_left_out_and_said(tmp_path):
    done = matrix("--dut", "quiver,exec:true", "-d", "0.2", "-o", tmp_path)
    assert "Note: true is left out: there are no ports" in done.stdout
    assert len(json.loads((tmp_path / "report.json").read_text())["tests"]) == 1


def test_one_core_is_saturated_step_by_step(tmp_path):
    done = run(
        QUIVER, "loadtest", "saturate", "--dut", "quiver", "--rates", "1kpps,50kpps,max", "-d", "0.4", "--runtime",
        "--others", "100",
        "--session", tmp_path / "session.json", "--html", tmp_path / "page.html",
    )  # fmt: skip
    (test,) = json.loads((tmp_path / "session.json").read_text())["tests"]
    assert [step["rate"] for step in test["steps"]] == ["1kpps", "50kpps", "max"]
    received = [step["trial"]["received_pps"] for step in test["steps"]]
    assert 100 < received[0] < 1100 and received[0] < received[1] < received[2]
    for step in test["steps"]:
        assert step["trial"]["bidirectional"] is False
        # One worker, and it polls.
        (worker,) = step["trial"]["device_load"]
        (node,) = (node for node in worker["nodes"] if node["name"] == "memif-input")
        assert "memif-input" in step["runtime"] and re.search(r"^memif-input +polling", step["runtime"], re.MULTILINE)
        # Packets of other sorts are a handful, and so are those that come when nodes have been looked at.
        assert node["packets"] == pytest.approx(step["trial"]["received_packets"], rel=0.1, abs=2500)

    def cost(step):
        (worker,) = step["trial"]["device_load"]
        packets = sum(node["packets"] for node in worker["nodes"] if node["kind"] == "input")
        return sum(node["clocks"] - node["idle_clocks"] for node in worker["nodes"]) / packets

    # A few packets at a time cost much more each than full vectors.
    with true_or_disturbed(tmp_path / "session.json"):
        assert cost(test["steps"][0]) > 3 * cost(test["steps"][2])
    assert f"{cost(test['steps'][0]):.0f}"[:2] in done.stdout and "Max PPS per core:" in done.stdout
    assert "Hz of " in done.stdout and "of the clock" in done.stdout
    page = (tmp_path / "page.html").read_text()
    assert (
        '<figure id="saturate-clocks-quiver">' in page
        and '<figure id="saturate-cpu-quiver">' in page
        and "memif-input" in page
    )


def test_frames_of_many_sizes(tmp_path):
    done = run(
        QUIVER, "loadtest", "sweep", "--dut", "reference:", "--sizes", "64,65,128,1518", "-d", "0.3", "--speed", "20m",
        "--others", "100",
        "--session", tmp_path / "session.json", "--html", tmp_path / "page.html",
    )  # fmt: skip
    (test,) = json.loads((tmp_path / "session.json").read_text())["tests"]
    for step in test["steps"]:
        assert step["twice_wire_speed"] == pytest.approx(2 * 20e6 / 8 / (step["frame"] + 20))
        assert step["trial"]["lost_packets"] == 0
        # What was due: a machine with other things to do sends less.
        due = step["trial"]["received_pps"] / (1 - step["trial"]["not_sent_share"])
        assert due == pytest.approx(step["twice_wire_speed"], rel=0.25)
    assert [step["frame"] for step in test["steps"]] == [64, 65, 128, 1518]
    assert "2x wire speed" in done.stdout and "No dips" in done.stdout
    assert '<figure id="sweep">' in (tmp_path / "page.html").read_text()


def search(tmp_path, *words, width=2):
    file = tmp_path / "session.json"
    done = run(
        QUIVER, "loadtest", "search", "-p", "bench", "--direction", "uni", "--trial", "0.2", "--duration-sum", "0.6",
        "--width", width, "--drain", "0.05", "--others", "100",
        "--session", file, *words, timeout=200,
    )  # fmt: skip
    (test,) = json.loads(file.read_text())["tests"]
    return done.stdout, test


@pytest.mark.alone
def test_a_search_finds_the_planted_rate_within_its_width(tmp_path):
    # Of 29.8 kpps it carries 12; what comes at once for a moment is held, not lost.
    said, test = search(
        tmp_path,
        "--dut",
        "reference:capacity=12kpps,queue=100",
        "--speed",
        "20m",
        "--latency",
        "--loss-rate",
        "--html",
        tmp_path / "page.html",
    )
    assert test["most_pps"] == pytest.approx(20e6 / 8 / 84)
    ndr, pdr = test["found"]
    assert [ndr["goal"]["name"], pdr["goal"]["name"]] == ["NDR", "PDR"]
    file = tmp_path / "session.json"
    with true_or_disturbed(file):
        for found in (ndr, pdr):
            assert (found["upper"] - found["lower"]) / found["upper"] <= 0.0200001, found
        # A queue of 100 takes 500 more each second for a fifth of one.
        assert 11e3 < ndr["lower"] < 12.8e3 and ndr["lower"] <= pdr["lower"] < 13e3, (ndr, pdr)
        assert pdr["conditional_throughput"] == pytest.approx(12.2e3, rel=0.06)
        assert [at["percent"] for at in test["latency"]] == [0, 10, 50, 90, 100]
        assert all(at["latency"]["p50"] > 0 for at in test["latency"])
        loss = [trial["loss_ratio"] for trial in test["curve"]]
        assert (
            loss[0] == pytest.approx(1 - 12e3 / test["most_pps"], abs=0.03)
            and loss[-2:] == [0, 0]
            and loss == sorted(loss, reverse=True)
        )
        assert "conditional throughput" in said and "Loss at 100.0 % of the line" in said
        page = (tmp_path / "page.html").read_text()
        assert '<figure id="search">' in page and '<figure id="search-latency">' in page


@pytest.mark.alone
def test_what_is_lost_at_all_rates_keeps_ndr_from_being_pdr(tmp_path):
    said, test = search(tmp_path, "--dut", "reference:lose=333", "--speed", "20m", "--mrr")
    ndr, pdr = test["found"]
    file = tmp_path / "session.json"
    with true_or_disturbed(file):
        # 0.3 % are lost at any rate: none is without loss, all of the line within half a percent.
        assert ndr["lower"] is None and ndr["conditional_throughput"] is None
        assert pdr["lower"] == pytest.approx(test["most_pps"]) and pdr["upper"] is None
        assert pdr["conditional_throughput"] == pytest.approx(test["most_pps"] * (1 - 1 / 333), rel=0.001)
        assert test["mrr"]["trials"] == 10 and test["mrr"]["mean"] == pytest.approx(
            pdr["conditional_throughput"], rel=0.02
        )
        assert "MRR" in said


@pytest.mark.alone
def test_the_longest_burst_tells_what_a_device_holds(tmp_path):
    # 29.8 kpps come and 12 go: a queue of 100 is full after 167.6 packets, which are 100 more than went meanwhile.
    said, test = search(
        tmp_path, "--dut", "reference:capacity=12kpps,queue=100", "--speed", "20m", "--back-to-back", "4", width=5
    )
    found = test["back_to_back"]
    assert found["times"] == 4 and found["limit"] == int(2 * test["most_pps"])
    file = tmp_path / "session.json"
    with true_or_disturbed(file):
        assert 150 < found["least"] <= found["mean"] <= found["most"] < 190, found
        assert found["implied"] == pytest.approx(found["mean"] / test["most_pps"])
        assert found["corrected"] * test["most_pps"] == pytest.approx(100, rel=0.15)
        assert "Back-to-back, each port: 1" in said


@pytest.mark.alone
def test_a_device_that_carries_the_line_has_no_longest_burst(tmp_path):
    said, test = search(tmp_path, "--dut", "reference:", "--speed", "1m", "--back-to-back", "3", width=20)
    assert test["back_to_back"]["least"] == test["back_to_back"]["limit"] and test["back_to_back"]["times"] == 1
    assert "no burst is too long" in said


@pytest.mark.alone
def test_recovery_is_as_long_as_was_planted(tmp_path):
    said, test = search(
        tmp_path,
        "--dut",
        "reference:lose=2,above=100kpps,recover=300ms",
        "--speed",
        "200m",
        "--recovery",
        "0.5",
        "--html",
        tmp_path / "page.html",
    )
    found = test["recovery"]
    file = tmp_path / "session.json"
    with true_or_disturbed(file):
        assert 85e3 < test["found"][0]["lower"] < 101e3, test["found"]
        assert found["overload"] == pytest.approx(1.1 * test["found"][0]["lower"]) and found[
            "reduced"
        ] == pytest.approx(found["overload"] / 2)
        assert found["lost"] > 1000 and len(found["times"]) == 3
        # The device looks every ten milliseconds how much came.
        assert all(0.28 < time < 0.32 for time in found["times"]), found
        assert "Recovery from 0 s" in said or "Recovery from 1 s" in said
        assert "packets are lost after an overload for" in (tmp_path / "page.html").read_text()


@pytest.mark.alone
def test_a_soak_with_a_million_routes_loses_nothing(tmp_path):
    file, page = tmp_path / "session.json", tmp_path / "page.html"
    done = run(
        QUIVER,
        "loadtest",
        "soak",
        "--dut",
        "quiver",
        "--routes",
        "bgp:1000000",
        "-m",
        "20kpps",
        "-d",
        "20s",
        "--session",
        file,
        "--html",
        page,
        timeout=200,
    )
    (soak,) = json.loads(file.read_text())["tests"]
    total = soak["total"]
    assert soak["routes"] == 1_000_000 and total["profile"] == "full-table" and soak["ended"] == "duration"
    assert total["lost_packets"] == 0, done.stdout
    # What was due: a busy machine sends less, and says so.
    assert total["sent_packets"] / (1 - total["not_sent_share"]) > 350_000, done.stdout
    assert 18 < total["seconds"] < 25
    outliers = soak["outliers"]
    assert 1 <= len(outliers) <= 16 and all(0 <= outlier["at"] <= total["seconds"] + 1 for outlier in outliers)
    assert outliers[0]["us"] == pytest.approx(total["latency"]["max"], rel=0.01)
    assert [outlier["us"] for outlier in outliers] == sorted((outlier["us"] for outlier in outliers), reverse=True)
    # Packets of everywhere were looked up in the table, and left by the port behind it.
    nodes = {node["name"]: node["packets"] for worker in total["device_load"] for node in worker["nodes"]}
    assert nodes["ip4-lookup"] > 0.99 * total["sent_packets"] and nodes["e1-tx"] > 0.99 * total["sent_packets"]
    assert "The longest delays:" in done.stdout and "1000000 routes" in done.stdout
    assert '<figure id="soak-0">' in page.read_text()


def test_what_a_soak_cannot_have_is_refused():
    for words, wrong in (
        (("--dut", "quiver", "--routes", "bgp:8000001"), "N from 1 to 8000000"),
        (("--dut", "null", "--routes", "bgp:10"), "are of the router under test"),
        (("--dut", "quiver", "--routes", "ospf:10"), "bgp:N"),
        (("--dut", "quiver", "-d", "3d"), "seconds"),
    ):
        done = run(QUIVER, "loadtest", "soak", *words, check=False)
        assert done.returncode != 0 and wrong in done.stderr, done.stderr


@pytest.mark.parametrize(
    "text, wrong",
    [
        ("", "EOF"),
        ("[]", "it has no 'format'"),
        ('{"format": "quiver-loadtest-session/1"}', "missing field"),
        ('{"format": "quiver-loadtest-session/1", "started": 1e300}', "a number beyond 1e18"),
    ],
)
def test_rubbish_is_no_session(tmp_path, text, wrong):
    file = tmp_path / "session.json"
    file.write_text(text)
    done = run(QUIVER, "loadtest", "report", file, "-o", tmp_path / "page.html", check=False)
    assert done.returncode == 1 and f"{file}: " in done.stderr and wrong in done.stderr, done.stderr
    assert not (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_a_device_that_goes_away_ends_each_method_and_is_told():
    ports = ("--dut", "exec:sleep 0.4", "--port", "null", "--port", "null", "--speed", "10m")
    for words in (
        ("search", "--trial", "0.5"),
        ("sweep", "-d", "1"),
        ("saturate", "-d", "1"),
        ("ramp", "-wd", "2", "-rd", "1"),
        ("soak", "-d", "5"),
    ):
        done = run(QUIVER, "loadtest", *words, *ports, check=False)
        assert done.returncode == 1 and "ended with exit status: 0" in done.stderr, (words, done.stderr)


@pytest.mark.slow
def test_what_was_measured_until_a_device_went_away_is_kept(tmp_path):
    ports = ("--dut", "exec:sleep 2.5", "--port", "null", "--port", "null", "--speed", "10m", "--others", "100")
    for words in (
        ("sweep", "-d", "0.5"),
        ("saturate", "--rates", "1,2,3,4,5,6,7,8", "-d", "0.5"),
        ("search", "--trial", "0.3", "--mrr"),
    ):
        file = tmp_path / f"{words[0]}.json"
        done = run(QUIVER, "loadtest", *words, *ports, "--session", file, "--html", tmp_path / "page.html", check=False)
        assert done.returncode == 1 and "what was counted until then is above" in done.stderr, done.stderr
        (test,) = json.loads(file.read_text())["tests"]
        assert "ended with exit status: 0" in test["failure"]
        measured = test["mrr"]["trials"] if words[0] == "search" else len(test["steps"])
        assert 1 <= measured <= 4, (words, measured)
        assert (tmp_path / "page.html").exists()


@pytest.mark.slow
def test_energy_is_what_a_meter_said_by_packet(tmp_path):
    done = run(
        QUIVER,
        "loadtest",
        "run",
        "--dut",
        "reference:",
        "-m",
        "20kpps",
        "-d",
        "0.5",
        "--watts",
        "12,17W",
        "-o",
        tmp_path / "run.json",
    )
    report = json.loads((tmp_path / "run.json").read_text())
    pps = sum(port["received_pps"] for port in report["ports"])
    with true_or_disturbed(tmp_path / "run.json"):
        assert report["energy"]["microjoules"] == pytest.approx(17e6 / pps, rel=0.05)
    ratio = report["energy"]["microjoules_above_idle"] / report["energy"]["microjoules"]
    assert ratio == pytest.approx(5 / 17)
    assert "Energy: 17 W, 12 W when idle: " in done.stdout
    matrix("--dut", "quiver", "-d", "0.2", "-o", tmp_path, "--speed", "10m", "--watts", "12,17")
    rows = json.loads((tmp_path / "report.json").read_text())["tests"][0]["rows"]
    assert all(row["trial"]["energy"]["idle_watts"] == 12 for row in rows)
    assert "<th>energy, as was told</th>" in (tmp_path / "report.html").read_text()
    done = run(QUIVER, "loadtest", "run", "--dut", "null", "--watts", "17,12", check=False)
    assert done.returncode != 0 and "and no fewer under load" in done.stderr


def test_a_port_ends_after_as_many_packets_as_it_is_told():
    report = json.loads(
        run(
            QUIVER,
            "loadtest",
            "run",
            "--dut",
            "reference:",
            "-p",
            "imix",
            "-m",
            "30kpps",
            "--direction",
            "bi",
            "--packets",
            "1234",
            "-o",
            "-",
        ).stdout
    )
    assert report["ended"] == "sent"
    assert [port["sent_packets"] + port["not_sent"]["refused"] for port in report["ports"]] == [1234, 1234]
    assert [port["lost_packets"] for port in report["ports"]] == [0, 0]
