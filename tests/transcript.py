"""Sessions as text: what was typed and what came back, compared with what comes back now.

    quiver# show version            a command for the router; the lines below are its answer
    quiver v…                       '…' stands for anything inside a line
    quiver~ show errors             given again until the answer fits (packets take a moment)
    ⋮                               any lines, or none
    # ip netns add left             a command for the shell of the host
    -- what the reader may know     a remark

Space at the end of a line does not count.
"""

import dataclasses
import re
import time

PATIENCE = 5


@dataclasses.dataclass
class Exchange:
    """One command with the answer that belongs to it."""

    line: int
    kind: str  # "router", "until" or "shell"
    command: str
    expected: list

    def fits(self, answer):
        return re.fullmatch(pattern(self.expected), normal(answer)) is not None

    def complaint(self, answer):
        expected = "\n".join(self.expected)
        return f"line {self.line}: {self.command}\n--- expected\n{expected}\n--- came\n{answer.rstrip()}"


PROMPTS = {"quiver# ": "router", "quiver~ ": "until", "# ": "shell"}


def parse(text, first_line=1):
    """The exchanges of a transcript."""
    exchanges = []
    for number, line in enumerate(text.splitlines(), first_line):
        kind = next((prompt for prompt in PROMPTS if line.startswith(prompt)), None)
        if kind:
            exchanges.append(Exchange(number, PROMPTS[kind], line[len(kind) :].strip(), []))
        elif line.startswith("-- "):
            continue
        elif exchanges:
            exchanges[-1].expected.append(line)
        elif line.strip():
            raise ValueError(f"line {number}: an answer without a command")
    for exchange in exchanges:
        while exchange.expected and not exchange.expected[-1].strip():
            exchange.expected.pop()
        # A block goes on until its brace is closed: those lines were typed, too.
        while exchange.command.count("{") > exchange.command.count("}") and exchange.expected:
            exchange.command += "\n" + exchange.expected.pop(0)
    return exchanges


def normal(text):
    return "\n".join(line.rstrip() for line in text.replace("\r", "").rstrip().split("\n"))


def pattern(expected):
    """The expected lines as a regular expression over the whole answer."""
    lines = normal("\n".join(expected)).split("\n") if expected else [""]
    result = ""
    for number, line in enumerate(lines):
        if line.strip() == "⋮":
            if number < len(lines) - 1:
                result += r"(?:.*\n)*?"
            elif result.endswith("\n"):
                # Or none: then the line before has no end either.
                result = result[:-1] + r"(?:\n.*)*"
            else:
                result += r"(?:.*\n)*.*"
            continue
        words = [re.escape(part) for part in line.split("…")]
        result += r"[^\n]*?".join(words) + ("\n" if number < len(lines) - 1 else "")
    return result


def play(exchanges, router, shell=None):
    """Gives all commands; fails at the first answer that does not fit. `router` and `shell`
    take a command and give what it printed."""
    for exchange in exchanges:
        give = shell if exchange.kind == "shell" else router
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = give(exchange.command)
            if exchange.fits(answer):
                break
            if exchange.kind != "until" or time.monotonic() > deadline:
                raise AssertionError(exchange.complaint(answer))
            time.sleep(0.05)
