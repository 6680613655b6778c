"""Every command as an operator types it, with what it answers: tests/transcripts/*.txt."""

import pathlib

import pytest

import transcript
from lab import CommandFailed

TRANSCRIPTS = sorted((pathlib.Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_the_router_answers_as_written(lab, file):
    router = lab.router()

    def answer(command):
        try:
            return router.batch(command + "\n")
        except CommandFailed as refusal:
            # The client names the line of its input, which is always the first here.
            return str(refusal).removeprefix("line 1: ")

    transcript.play(transcript.parse(file.read_text()), answer)
