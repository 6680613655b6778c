"""Files that are none, files without an end, and text that would steer a terminal."""

import os
import resource
import subprocess

import pytest

from lab import QUIVER

HOSTILE = "\x1b]0;PWN\x07\x1b[2J"
SPELLED = "\\u001b]0;PWN\\u0007\\u001b[2J"


def quiver(*words, **options):
    """Runs it with little memory; gives its exit code and all that it wrote, as bytes."""

    def little():
        resource.setrlimit(resource.RLIMIT_AS, (1500 << 20, 1500 << 20))

    command = [QUIVER, *map(str, words)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False, preexec_fn=little, **options)
    return done.returncode, done.stdout + done.stderr


# Where a command takes a file to read.
READERS = [
    ("run", "--config"),
    ("loadtest", "run", "--config"),
    ("loadtest", "run", "--dut", "reference:", "-p"),
    ("loadtest", "report", "-o", "/dev/null"),
]


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, words):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for file in (pipe, "/dev/zero"):
        code, said = quiver(*words, file)
        assert code == 1 and f"{file}: not a regular file" in said.decode(), said
    code, said = quiver(*words, tmp_path)
    assert code == 1 and f"{tmp_path}: is a directory" in said.decode(), said


@pytest.mark.parametrize("words", READERS, ids=" ".join)
def test_a_file_that_is_too_large_is_refused(tmp_path, words):
    large = tmp_path / "large"
    with open(large, "wb") as file:
        file.truncate(1 << 40)
    code, said = quiver(*words, large)
    # A profile is looked at first: zeros are no text.
    reasons = (b": larger than ", b": longer than ", b", and this is none")
    assert code == 1 and any(reason in said for reason in reasons), said


def without_controls(said):
    return all(byte in b"\n\t" or byte >= 32 for byte in said)


def test_no_text_of_a_file_reaches_the_terminal_as_it_is(tmp_path):
    """What is wrong is told with the word that is wrong, spelled out."""
    file = tmp_path / "file"
    json_hostile = HOSTILE.replace("\x1b", "\\u001b").replace("\x07", "\\u0007")
    texts = [
        (("run", "--config"), f"unix {{ {HOSTILE} }}"),
        (("loadtest", "run", "--config"), f"- version: 2\n  interfaces: ['{HOSTILE}']\n"),
        (("loadtest", "report", "-o", "/dev/null"), f'{{"format": "{json_hostile}"}}'),
        (("loadtest", "run", "--dut", "reference:", "-p"), f'[[stream]]\nlayers = ["{json_hostile}"]\n'),
    ]
    for words, text in texts:
        file.write_text(text)
        code, said = quiver(*words, file)
        assert code == 1 and without_controls(said), (words, said)
    file.write_text(texts[2][1])
    assert SPELLED in quiver(*texts[2][0], file)[1].decode()
    file.write_text(texts[0][1])
    assert SPELLED in quiver(*texts[0][0], file)[1].decode()


def test_no_text_of_a_peer_reaches_the_terminal_as_it_is(lab):
    router = lab.router()
    script = router.directory / "script"
    script.write_text(f"create null interface name n0\n{HOSTILE}\n")
    for words in (("exec", script), (f"show {HOSTILE}",)):
        done = subprocess.run(
            [QUIVER, "cli", "--socket", router.socket, *map(str, words)], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == 1 and without_controls(done.stdout + done.stderr), done
