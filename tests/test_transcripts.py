"""Every command as an operator types it, with what it answers: tests/transcripts/*.txt."""

import pathlib
import re

import pytest

import transcript
from lab import CommandFailed, QUIVER, ROOT, run

TRANSCRIPTS = sorted((pathlib.Path(__file__).parent / "transcripts").glob("*.txt"))
# What transcripts leave behind.
LEFT = ("/tmp/quiver-transcript.cli", "/tmp/quiver-transcript.pcapng")


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_the_router_answers_as_written(lab, file):
    # The same on machines with huge pages and without.
    router = lab.router(extra="buffers { page-size 4k }")

    def answer(command):
        try:
            return router.batch(command + "\n")
        except CommandFailed as refusal:
            # The client names the line of its input, which is always the first here.
            return str(refusal).removeprefix("line 1: ")

    text = file.read_text()
    try:
        # What the host does, it does where the router is.
        transcript.play(transcript.parse(text), answer, lambda command: router.host.run(*command.split()).stdout)
    finally:
        # Others, which run at the same time, may need theirs still.
        for left in LEFT:
            if left in text:
                pathlib.Path(left).unlink(missing_ok=True)


def test_every_command_is_in_a_transcript():
    """By its full name, or as a session of the guide has it."""
    names = re.findall(r"^### (.+)$", run(QUIVER, "generate", "cli-guide").stdout, re.MULTILINE)
    assert len(names) > 80, names
    typed = "".join(file.read_text() for file in [*TRANSCRIPTS, ROOT / "docs/guide/quick-start.md"])
    given = [line.split("# ", 1)[-1] for line in typed.splitlines() if line.startswith(("quiver# ", "quiver~ "))]
    given = [line.removeprefix("quiver~ ").split() for line in given]
    missing = [name for name in names if not any(words[: len(name.split())] == name.split() for words in given)]
    assert not missing, f"no transcript has: {', '.join(missing)}"


def test_an_answer_that_differs_is_noticed():
    """The tool itself: what it takes for the same, and what not."""
    expected = transcript.parse("quiver# x\na…c\n⋮\nend\n")[0]
    assert expected.fits("abc\nend\n") and expected.fits("a  c\n1\n2\nend")
    for other in ("abd\nend\n", "abc\n", "abc\nend\nmore\n", "x\nabc\nend\n", ""):
        assert not expected.fits(other), other
    assert transcript.parse("quiver# y\n")[0].fits("") and not transcript.parse("quiver# y\n")[0].fits("z\n")
