"""What the guide quotes is what the program says."""

import re

from lab import ROOT

# Said by the system, by systemd or by others, not by us.
OTHERS = {"Permission denied", "No such file or directory", "No such device", "Watchdog timeout"}
OTHERS |= {"Start request repeated too quickly", "systemctl status", "activating", "vppctl", "0660"}


def sources():
    """All of the program's text, string literals that span lines made one."""
    text = "".join(path.read_text() for path in (ROOT / "crates").rglob("*.rs"))
    text = re.sub(r"\\\n\s*", "", text)
    # Placeholders stand where the guide has '...'; braces and quotes as they are printed.
    return text.replace("{{", "{").replace("}}", "}").replace('\\"', '"')


def quoted(text):
    """The messages in the first column of tables that begin with 'seen'."""
    for table in re.findall(r"^\| seen \|.*?(?=\n\n|\Z)", text, re.M | re.S):
        for row in table.splitlines()[2:]:
            yield from re.findall(r"`([^`]+)`", row.split(" | ")[0])


def fragments(message):
    """What is the same each time: between '...', and the names that stand for others."""
    return [part.strip() for part in re.split(r"\.\.\.", message) if len(part.strip(" :'()")) > 1]


def test_each_message_of_the_troubleshooting_guide_is_in_the_program():
    said = sources()
    messages = list(quoted((ROOT / "docs/guide/troubleshooting.md").read_text()))
    assert len(messages) > 50
    missing = []
    for message in messages:
        if message in OTHERS:
            continue
        for part in fragments(message):
            kept = part
            for other in OTHERS:
                kept = kept.replace(f": {other}", "")
            if kept.strip(" :'") and kept.strip(" :'") not in said:
                missing.append((message, part))
    assert not missing, missing


def test_links_between_documents_lead_somewhere():
    broken = []
    for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text()):
            if "://" not in link and not (document.parent / link).exists():
                broken.append((str(document.relative_to(ROOT)), link))
    assert not broken, broken
