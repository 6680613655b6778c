"""startup.conf, the start-up commands, starting and stopping."""

import os
import signal
import subprocess
import time

import pytest

from lab import QUIVER, CommandFailed, run, wait_until


def refusal(tmp_path, text):
    """What `quiver run` says of a configuration that it cannot start with."""
    config = tmp_path / "startup.conf"
    config.write_text(text)
    done = run(QUIVER, "run", "--config", config, check=False, timeout=20)
    assert done.returncode == 1
    return done.stderr


def test_an_unknown_key_is_named_with_its_place(tmp_path):
    said = refusal(tmp_path, "unix {\n  nodaemon\n  exce /tmp/commands\n}\n")
    assert f"{tmp_path}/startup.conf:3:3: unknown key 'exce' in 'unix'" in said and "'exec'" in said


def test_an_unknown_section_is_named_with_its_place(tmp_path):
    said = refusal(tmp_path, "unix { nodaemon }\nunicorns { many }\n")
    assert f"{tmp_path}/startup.conf:2:1: " in said and "unicorns" in said


def test_a_missing_brace_and_a_bad_value_are_named_with_their_place(tmp_path):
    assert "startup.conf:1:6: " in refusal(tmp_path, "unix { nodaemon\n")
    said = refusal(tmp_path, "unix { nodaemon }\nbuffers {\n  buffers-per-numa lots\n}\n")
    assert "startup.conf:3:" in said and "lots" in said


def test_a_missing_configuration_is_named(tmp_path):
    done = run(QUIVER, "run", "--config", tmp_path / "absent.conf", check=False)
    assert done.returncode == 1 and f"{tmp_path}/absent.conf" in done.stderr


def test_the_startup_commands_are_carried_out(lab):
    router = lab.router(
        "comment { a whole router in one file }\n"
        "create null interface name n0\n"
        "set interface ip address n0 10.0.9.1/24\n"
        "set interface state n0 up\n"
        "ip route add 192.0.2.0/24 via 10.0.9.2\n"
    )
    assert "n0 (up):\n  L3 10.0.9.1/24" in router.cli("show interface address")
    assert "192.0.2.0/24" in router.cli("show ip fib")
    assert "done" in router.log()


def test_a_bad_line_in_the_startup_commands_is_named_in_the_log(lab):
    router = lab.router("create null interface name n0\n\nset interface sate n0 up\n")
    assert f"{router.commands}:3: " in router.log() and "sate" in router.log()
    # The router runs all the same, for somebody to put it right.
    assert router.cli_json("show interface")["interfaces"][0]["name"] == "n0"


def test_what_only_vpp_knows_is_a_warning(lab):
    router = lab.router(extra="dpdk { dev 0000:01:00.0 { name e0 } }\nplugins { plugin default { enable } }")
    assert "0000:01:00.0 (e0) will not exist" in router.log() and "plugins" in router.log()
    assert "create host-interface" in router.log()


def test_settings_have_their_effect(lab):
    router = lab.router(extra="buffers { buffers-per-numa 4096 }\ncpu { main-core 0 corelist-workers 1 }")
    assert router.cli_json("show buffers")["total"] == 4096
    threads = f"/proc/{router.process.pid}/task"
    cores = {}
    for thread in os.listdir(threads):
        name = open(f"{threads}/{thread}/comm").read().strip()
        cores[name] = os.sched_getaffinity(int(thread))
    if os.cpu_count() > 1:
        assert cores["quiver_wk_0"] == {1}


@pytest.mark.parametrize("chosen", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_under_traffic(lab, chosen):
    router, h1, _ = lab.two_hosts("tap")
    flood = h1.start("ping", "-q", "-f", "10.0.2.2", stdout=subprocess.DEVNULL)
    time.sleep(0.3)
    router.process.send_signal(chosen)
    assert router.process.wait(timeout=30) == 0
    assert not router.socket.exists()
    flood.kill()
    router.finished = True


def test_a_router_that_was_killed_can_start_again(lab):
    """Its socket file is left behind, and must not stand in the way."""
    first = lab.router("create null interface name n0\n")
    first.process.kill()
    first.process.wait()
    first.finished = True
    assert first.socket.exists()
    again = first.host.start(QUIVER, "run", "--config", first.config)
    question = (QUIVER, "cli", "--socket", first.socket, "show", "version")
    wait_until(lambda: run(*question, check=False).returncode == 0, "it runs")
    again.terminate()
    assert again.wait(10) == 0


def test_two_routers_do_not_share_a_socket(lab):
    router = lab.router()
    done = run(QUIVER, "run", "--config", router.config, check=False, timeout=20)
    assert done.returncode == 1 and str(router.socket) in done.stderr
    assert router.cli("show version")


def test_in_the_background_it_answers_when_the_command_returns(lab, tmp_path):
    socket = tmp_path / "cli.sock"
    config = tmp_path / "startup.conf"
    config.write_text(f"unix {{ cli-listen {socket} log {tmp_path}/log }}\n")
    starter = lab.host("router").start(QUIVER, "run", "--config", config)
    assert starter.wait(20) == 0
    shown = run(QUIVER, "cli", "-s", socket, "show", "version", "verbose").stdout
    pid = int(shown.split("Current PID:")[1].split()[0])
    assert os.getpgid(pid) == pid, "a ^C at the terminal would end it"
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not socket.exists(), "it has ended")


def test_a_startup_config_that_executes_other_files_is_carried_out_as_vpp_does(lab, tmp_path):
    """In VPP `startup-config` and `exec` are one key: scripts under either name execute others, and show things."""
    inner = tmp_path / "setup.tmpl"
    inner.write_text("set int ip address loop0 203.0.113.1/24\n")
    script = tmp_path / "setup.gate"
    script.write_text(
        "comment { towards the provider }\ncreate loopback interface\nset int ip address loop0 198.51.100.1/24\n"
        f"exec {inner}\nshow int\nset int state loop0 up\n"
    )
    before = script.read_text()
    router = lab.router(unix=f"startup-config {script}")
    wait_until(lambda: "startup commands of" in router.log(), "the script is done")
    assert "loop0 (up):\n  L3 198.51.100.1/24\n  L3 203.0.113.1/24" in router.cli("show interface address")
    assert f"{script}:4: 'exec {inner}': the file is a script" in router.log()
    # 'save' would write a list of statements over it.
    with pytest.raises(CommandFailed, match="no file to save to"):
        router.cli("save")
    assert script.read_text() == before


def test_what_has_no_effect_is_said_before_it_goes_to_the_background(lab, tmp_path):
    config = tmp_path / "startup.conf"
    socket, number = tmp_path / "cli.sock", tmp_path / "pid"
    config.write_text(
        f"unix {{ cli-listen {socket} log {tmp_path}/log pidfile {number} gid no-such-group }}\n"
        "dpdk { dev 0000:01:00.0 { name e0 } }\nethernet { default-mtu 9000 }\n"
    )
    said = lab.host("router").run(QUIVER, "run", "--config", config)
    assert "quiver: warning: dpdk: this version has no DPDK driver: 0000:01:00.0 (e0) will not exist" in said.stderr
    assert "quiver: warning: ethernet: this version has no such section" in said.stderr
    assert "quiver: warning: " in said.stderr and "gid no-such-group: no such group" in said.stderr
    assert "this version has no DPDK driver" in (tmp_path / "log").read_text()
    os.kill(int(number.read_text()), signal.SIGTERM)
    wait_until(lambda: not socket.exists(), "it ended")


def in_a_run_of_its_own(script):
    """A script of the shell where `/run` is empty and nobody listens anywhere."""
    text = f"mount -t tmpfs none /run; mkdir -p /run/vpp /run/q; Q={QUIVER}; {script}"
    return run("unshare", "-m", "-n", "--propagation", "private", "bash", "-c", text, check=False, timeout=60)


@pytest.mark.skipif(os.path.realpath("/var/run") != "/run", reason="/var/run is no link to /run")
def test_a_socket_below_var_run_is_the_one_that_vppctl_looks_for():
    done = in_a_run_of_its_own(
        "echo 'unix { nodaemon log /run/log runtime-dir /run/q cli-listen /var/run/vpp/cli.sock }' > /run/c;"
        "$Q run -c /run/c & for i in $(seq 200); do $Q cli -s /run/vpp/cli.sock show version > /dev/null 2>&1 && "
        "break; "
        "sleep 0.1; done; kill $!; wait $!; cat /run/log"
    )
    assert "commands on /var/run/vpp/cli.sock" in done.stdout and "not listening" not in done.stdout


@pytest.mark.parametrize("place", ["/run/vpp/cli.sock", "/run/q/cli.sock"])
def test_the_client_finds_the_socket_that_the_router_listens_on(place):
    done = in_a_run_of_its_own(
        f"echo 'unix {{ nodaemon log /run/log runtime-dir /run/q cli-listen {place} }}' > /run/c;"
        "$Q run -c /run/c & for i in $(seq 200); do $Q cli show version && break; sleep 0.1; done; kill $!; wait $!"
    )
    assert done.stdout.startswith("quiver v"), done.stdout + done.stderr


def test_where_nobody_listens_the_usual_socket_is_named():
    done = in_a_run_of_its_own("$Q cli show version")
    assert done.returncode == 1 and "no router answers on /run/quiver/cli.sock" in done.stderr
    assert "is 'quiver run' running?" in done.stderr
