"""README and changelog are short, and the picture shows the README's numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from deploy.docs import picture

ROOT = Path(__file__).parents[2]
_PAGES = re.compile(r"^ +- [^:\n]+: ([\w/-]+\.md)$", re.MULTILINE)
# The pages under How-to guides in the navigation.
_NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\n  - How-to guides:\n")[2]
GUIDES = _PAGES.findall(re.split(r"^  - ", _NAVIGATION, maxsplit=1, flags=re.MULTILINE)[0])


@pytest.mark.parametrize(("name", "most_lines"), [("README.md", 90), ("CHANGELOG.md", 60)])
def test_a_page_is_short(name: str, most_lines: int) -> None:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= most_lines
    assert [line for line in lines if len(line) > 100] == []


@pytest.mark.parametrize("name", GUIDES)
def test_a_guide_is_at_most_100_lines(name: str) -> None:
    assert len((ROOT / "docs" / name).read_text(encoding="utf-8").splitlines()) <= 100


def test_the_guides_are_the_pages_of_their_folder() -> None:
    """The navigation lists each page of docs/how-to once under How-to guides, and no other page."""
    folder = [f"how-to/{path.name}" for path in (ROOT / "docs" / "how-to").glob("*.md")]
    assert sorted(GUIDES) == sorted(folder)


def test_the_changelog_lists_features() -> None:
    """A release lists its features, without comparison to unreleased states."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"\b(?:before|no longer|any more|instead of|used to)\b", text, re.IGNORECASE) == []


def test_the_picture_is_what_the_script_draws() -> None:
    """The picture shows the numbers of the README's table."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = [
        (cdn, int(names), float(measured) / 100, float(declared) / 100)
        for cdn, names, measured, declared in re.findall(
            r"^    ([A-Z]\w+) +(\d+) +\d+ +\d+ +([\d.]+) +([\d.]+) +[\d.]+ ", readme, re.MULTILINE
        )
    ]
    assert len(rows) == 8
    drawn = picture.svg(
        [{"cdn": cdn, "domains": names, "iack_share_max": share} for cdn, names, share, _ in rows],
        {cdn: declared for cdn, _, _, declared in rows},
    )
    committed = (ROOT / "docs" / "images" / "table1.svg").read_text(encoding="utf-8")
    text = re.compile(r"<text[^>]*>([^<]*)<")
    assert text.findall(drawn) == text.findall(committed)
    assert len(committed) < 10_000


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("*.md")))
def test_links_of_the_top_folder_lead_to_files(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"^\[[^\]]+\]: (\S+)$", text, re.MULTILINE)
    local = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:", target)]
    assert [target for target in local if target and not (ROOT / target).exists()] == []
    used = set(re.findall(r"\]\[([^\]]+)\]", text))
    assert used <= set(re.findall(r"^\[([^\]]+)\]: ", text, re.MULTILINE))
