"""`make install` and `make uninstall`, into a directory of their own."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess

import pytest

from lab import QUIVER, ROOT, run, wait_until

PREFIX = "opt/quiver"
CONFIG = "etc/quiver/startup.conf"
UNIT = f"{PREFIX}/lib/systemd/system/quiver.service"


@pytest.fixture
def root(tmp_path):
    """An empty system to install into."""
    if not QUIVER.exists():
        pytest.skip(f"{QUIVER} is not built (cargo build -p quiver)")
    made = tmp_path / "root"
    made.mkdir()
    return made


def make(target, root, check=True, binary=QUIVER):
    """Runs `make install` or `uninstall`; gives what it said."""
    where = (f"PREFIX=/{PREFIX}", "SYSCONFDIR=/etc", f"DESTDIR={root}", f"BINARY={binary}")
    done = run("make", "--no-print-directory", "-C", ROOT, target, *where, check=check)
    return done.stdout + done.stderr


def files(root):
    """All files and links below, by their path."""
    found = (path for path in root.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(str(path.relative_to(root)) for path in found)


def prints(*words):
    """Whether this build has a command that prints a document."""
    return run(QUIVER, *words, check=False).returncode == 0


def test_each_file_is_where_it_belongs(root):
    make("install", root)
    expected = [
        CONFIG,
        f"{PREFIX}/bin/quiver",
        f"{PREFIX}/bin/trex-loadtest",
        f"{PREFIX}/bin/vppctl",
        UNIT,
        f"{PREFIX}/share/quiver/manifest",
    ]
    if prints("completion", "bash"):
        expected.append(f"{PREFIX}/share/bash-completion/completions/quiver")
    if prints("generate", "man"):
        expected.append(f"{PREFIX}/share/man/man1/quiver.1")
    assert files(root) == sorted(expected)
    for name in ("vppctl", "trex-loadtest"):
        assert os.readlink(root / f"{PREFIX}/bin/{name}") == "quiver"
    assert (root / f"{PREFIX}/bin/quiver").read_bytes() == QUIVER.read_bytes()
    modes = {name: stat.S_IMODE((root / name).stat().st_mode) for name in (CONFIG, UNIT, f"{PREFIX}/bin/quiver")}
    assert modes == {CONFIG: 0o640, UNIT: 0o644, f"{PREFIX}/bin/quiver": 0o755}
    unit = (root / UNIT).read_text()
    assert f"ExecStart=/{PREFIX}/bin/quiver run --foreground --config /etc/quiver/startup.conf\n" in unit
    assert "@" not in unit


def test_what_was_installed_runs(root, tmp_path):
    make("install", root)
    installed = root / f"{PREFIX}/bin/quiver"
    config = tmp_path / "startup.conf"
    adapted = (root / CONFIG).read_text().replace("/var/lib/quiver", str(tmp_path / "state"))
    adapted = adapted.replace("/etc/quiver", str(tmp_path))
    config.write_text(adapted.replace("unix {", f"unix {{\n  runtime-dir {tmp_path}/run", 1))
    with open(tmp_path / "log", "w") as log:
        router = subprocess.Popen([installed, "run", "--foreground", "--config", config], stderr=log)
    try:
        ask = (installed, "cli", "-s", tmp_path / "run/cli.sock", "show", "version")
        wait_until(lambda: run(*ask, check=False).returncode == 0, "it answers")
        assert " warn " not in (tmp_path / "log").read_text()
        # What it is told to keep, it keeps.
        run(installed, "cli", "-s", tmp_path / "run/cli.sock", "create null interface name n0")
        run(installed, "cli", "-s", tmp_path / "run/cli.sock", "save")
        assert "create null interface name n0\n" in (tmp_path / "saved.cli").read_text()
        router.send_signal(signal.SIGTERM)
        assert router.wait(10) == 0
    finally:
        router.kill()
        router.wait()


def test_nothing_is_left(root):
    make("install", root)
    assert make("uninstall", root) == ""
    assert list(root.iterdir()) == []


def test_only_what_was_installed_goes(root):
    own = root / f"{PREFIX}/bin/other"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    make("install", root)
    later = root / "etc/quiver/setup.cli"
    later.write_text("show version\n")
    make("uninstall", root)
    assert files(root) == ["etc/quiver/setup.cli", f"{PREFIX}/bin/other"]
    assert make("uninstall", root, check=False).startswith(f"quiver: nothing is installed under {root}/{PREFIX}")


def test_a_changed_configuration_is_neither_replaced_nor_removed(root):
    make("install", root)
    config = root / CONFIG
    config.write_text("unix { nodaemon }\n")
    assert f"{config} is kept" in make("install", root)
    assert config.read_text() == "unix { nodaemon }\n"
    assert f"{config} is kept: it has been changed" in make("uninstall", root)
    assert files(root) == [CONFIG]
    # And one that was there before we were.
    assert f"{config} is kept" in make("install", root)
    make("uninstall", root)
    assert files(root) == [CONFIG]


def test_a_configuration_that_nobody_changed_is_renewed_and_removed(root):
    make("install", root)
    manifest = root / f"{PREFIX}/share/quiver/manifest"
    before = manifest.read_text()
    # As if an older version had been installed.
    config = root / CONFIG
    config.write_text("# older\n")
    sums = run("sha256sum", config).stdout.split()[0]
    lines = [line for line in before.splitlines() if not line.startswith("config ")]
    manifest.write_text("\n".join([*lines, f"config {sums} /{CONFIG}"]) + "\n")
    assert "is kept" not in make("install", root)
    assert config.read_text() == (ROOT / "packaging/startup.conf").read_text().replace("@sysconfdir@", "/etc")
    assert sorted(manifest.read_text().splitlines()) == sorted(before.splitlines())
    make("uninstall", root)
    assert list(root.iterdir()) == []


def test_another_vppctl_is_left_alone(root):
    other = root / f"{PREFIX}/bin/vppctl"
    other.parent.mkdir(parents=True)
    other.write_text("VPP's own")
    assert f"vppctl is not linked to quiver: there is {other}" in make("install", root)
    make("uninstall", root)
    assert files(root) == [f"{PREFIX}/bin/vppctl"] and other.read_text() == "VPP's own"


def test_a_binary_that_is_not_built_is_named(root):
    done = run(ROOT / "scripts/install.sh", "install", root / "absent", check=False)
    assert done.returncode == 1 and f"{root}/absent is not built (make build)" in done.stderr
    assert files(root) == []


def test_the_unit_is_well_formed(root, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs the program 'systemd-analyze'")
    make("install", root)
    unit = tmp_path / "quiver.service"
    # The program has to be there.
    unit.write_text((root / UNIT).read_text().replace(f"/{PREFIX}/bin", str(root / f"{PREFIX}/bin")))
    done = run("systemd-analyze", "verify", "--man=no", unit, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_debug_information_lies_beside_the_program(root, tmp_path):
    """`make build` splits it off. Backtraces of the smaller program still name file and line, installed or not."""
    source = tmp_path / "panics.rs"
    source.write_text('fn main() {\n    panic!("on purpose");\n}\n')
    program = tmp_path / "quiver"
    run("rustc", "-g", "-o", program, source)
    whole = program.stat().st_size

    def backtrace(of):
        return subprocess.run([of], env={"RUST_BACKTRACE": "1"}, capture_output=True, text=True).stderr

    for _ in range(2):
        # A second time, there is nothing left to do.
        run(ROOT / "scripts/split-debug.sh", program)
        assert program.stat().st_size < whole / 2
        assert "panics.rs:2:" in backtrace(program).split("stack backtrace:")[1]
    make("install", root, binary=program)
    installed = root / f"{PREFIX}/bin/quiver"
    program.with_name("quiver.debug").unlink()
    assert "panics.rs:2:" in backtrace(installed).split("stack backtrace:")[1]
    (root / f"{PREFIX}/bin/.debug/quiver.debug").unlink()
    assert "panics.rs:2:" not in backtrace(installed).split("stack backtrace:")[1]
