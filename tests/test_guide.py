"""The sessions in the guide, typed again."""

import os
import pathlib
import re
import subprocess

import pytest

import transcript
from lab import QUIVER, ROOT

CONSOLE = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a reader does before: this suite has built it.
SKIPPED = ("make build",)
END_OF_ANSWER = "\x04end of answer\x04"


class Newcomer:
    """A shell of its own, with an empty /run and no network, as on a fresh machine."""

    def __init__(self, directory):
        path = f"{QUIVER.parent}:{os.environ['PATH']}"
        self.shell = subprocess.Popen(
            ["unshare", "--mount", "--net", "bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=directory,
            env=dict(os.environ, PATH=path, PS1="", LC_ALL="C"),
        )
        self.type("mount --make-rprivate / && mount -t tmpfs tmpfs /run && ip link set lo up")

    def type(self, command):
        if command.startswith(SKIPPED) or command == "quiver cli":
            return ""
        self.shell.stdin.write(f"{command}\nprintf '{END_OF_ANSWER}\\n'\n")
        self.shell.stdin.flush()
        answer = ""
        while END_OF_ANSWER not in answer:
            line = self.shell.stdout.readline()
            assert line, f"the shell ended in '{command}':\n{answer}"
            answer += line
        return answer.split(END_OF_ANSWER)[0]

    def ask(self, command):
        if command == "quit":
            return ""
        answer = self.type(f"quiver cli <<'END'\n{command}\nEND")
        return answer.removeprefix("line 1: ")

    def leave(self):
        self.shell.stdin.close()
        self.shell.wait(timeout=30)


def exchanges_of(text):
    found = []
    for block in CONSOLE.finditer(text):
        first_line = text[: block.start(1)].count("\n") + 1
        found += transcript.parse(block.group(1), first_line)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("page", ["quick-start", "configuration"])
def test_a_session_of_the_guide_goes_as_written(privileges, tmp_path, page):
    text = (ROOT / "docs" / "guide" / f"{page}.md").read_text()
    newcomer = Newcomer(tmp_path)
    try:
        transcript.play(exchanges_of(text), newcomer.ask, newcomer.type)
    finally:
        newcomer.type("test ! -e quiver.pid || kill $(cat quiver.pid) 2>/dev/null")
        newcomer.leave()
