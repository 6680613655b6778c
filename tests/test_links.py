"""Links and pictures in the documents lead somewhere, and so do the places in a page that they name."""

import re

from lab import ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def pages():
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "bench").glob("*.md")]


def places(page):
    """The names by which headings are linked to."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_each_link_resolves():
    looked_at, broken = 0, []
    for page in pages():
        # What stands in a block of code is no link.
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for target in LINK.findall(re.sub(r"`[^`\n]*`", "", text)):
            looked_at += 1
            if target.startswith(("http://", "https://")):
                continue
            path, _, place = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists() or (place and file.suffix == ".md" and place not in places(file)):
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert looked_at > 100
    assert not broken, "\n".join(broken)


def test_the_guide_is_linked_from_the_first_page():
    first = (ROOT / "README.md").read_text()
    missing = [page.name for page in (ROOT / "docs/guide").glob("*.md") if f"docs/guide/{page.name}" not in first]
    assert not missing
