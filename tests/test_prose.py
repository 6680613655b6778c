"""The words of the project: lines of at most 120 columns, the field's words, quotes in pairs."""

import re
import subprocess

from lab import ROOT

COLUMNS = 120
# Turns of phrase that a reader has to guess at, and what to say instead.
RIDDLES = {
    r"\b(was|is|were|are|be) away\b": "preempted",
    r"\basks? in vain\b": "idle poll",
    r"\bin vain\b": "without an answer",
    r"\bcomes? along\b": "built-in",
    r"\bwent no further\b": "was not forwarded",
    r"\bgoes no further\b": "is not forwarded",
    r"\bstands? by\b": "backup path",
    r"\bit comes otherwise\b": "say what happens",
    r"\bas many as go\b": "at the maximum rate",
    r"\bhas something to say\b": "logs",
}
QUOTES = re.compile(r"`(?=[^\s`'])[^`'\n]*'(?!\w)")


def tracked(*patterns):
    """Files of the project that hold text."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def prose(page):
    """The numbered lines of a page that are text: no table, no block of code."""
    is_code = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("|"):
            yield number, line


def test_lines_are_no_longer_than_the_page():
    code = tracked("*.rs", "*.py", "*.sh", "Makefile")
    lines = [(path, number, line) for path in code for number, line in enumerate(path.read_text().splitlines(), 1)]
    lines += [(page, number, line) for page in tracked("*.md") for number, line in prose(page)]
    long = [f"{path.relative_to(ROOT)}:{number}: {len(line)}" for path, number, line in lines if len(line) > COLUMNS]
    assert len(lines) > 100_000, "files were left out"
    assert not long, "\n".join(long)


def test_no_word_is_a_riddle():
    found = []
    for path in tracked("*.rs", "*.md", "*.py", "*.txt"):
        if path.name == "test_prose.py":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for riddle, instead in RIDDLES.items():
                if re.search(riddle, line, re.IGNORECASE):
                    found.append(f"{path.relative_to(ROOT)}:{number}: write '{instead}': {line.strip()}")
    assert not found, "\n".join(found)


def test_quotes_are_straight_and_in_pairs():
    found = []
    for path in tracked("*.rs", "*.md", "*.py", "*.txt"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if QUOTES.search(re.sub(r"`[^`]*`", "", line)):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)
