"""The documentation site: MkDocs finds no broken link or anchor, and pages load nothing from other hosts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.docs import hooks, settings
from firstflight.settings.whole import Settings

ROOT = Path(__file__).parents[2]
# Resources that a browser fetches automatically. Links may point to other sites.
FETCHED = re.compile(
    r"""<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)"""
)


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    """Build the site; a warning from MkDocs is an error. Tests have no network."""
    # With --quiet, MkDocs would not count warnings, and --strict would have no effect.
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(out)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site."""
    out = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", out)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def test_links_and_anchors_exist_and_nothing_is_loaded_from_other_sites(site: Path) -> None:
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in site.rglob("*.html")}
    assert len(pages) > 50
    for name, text in pages.items():
        assert FETCHED.findall(re.sub(r"<link rel=\"?canonical[^>]*>", "", text)) == [], name
    for sheet in (site / "assets").rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//[^)]+", sheet.read_text("utf-8")) == [], sheet
    # Generated pages, and pages from the top folder.
    assert "firstflight campaign run" in pages["reference/commands.html"]
    assert "contributing.html" in pages["index.html"]
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


def test_every_page_is_in_the_navigation(site: Path) -> None:
    """A page that is missing in the navigation has no previous or next page, and is hard to find."""
    index = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert f'href="{place}"' in index, place


@pytest.mark.parametrize("broken", ["[x](missing.md)", "[x](other.md#missing)"])
def test_a_broken_link_is_an_error(broken: str, tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Page\n\n{broken}\n", encoding="utf-8")
    (docs / "other.md").write_text("# Other\n", encoding="utf-8")
    configuration = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    validation = configuration[configuration.index("validation:") :]
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"site_name: x\ntheme: mkdocs\nplugins: []\n{validation}", encoding="utf-8")
    done = build(config, tmp_path / "out")
    assert done.returncode == 1 and "missing" in done.stderr


@pytest.mark.parametrize(
    ("link", "place", "source", "wanted"),
    [
        ("[s](../SECURITY.md)", "ethics.md", "docs/ethics.md", "[s](project/security.md)"),
        ("[s](../../SECURITY.md#a)", "design/x.md", "docs/design/x.md", "[s](../project/security.md#a)"),
        ("[e](docs/ethics.md)", "project/security.md", "SECURITY.md", "[e](../ethics.md)"),
        ("[code](../cli/lab/lab.py)", "lab.md", "docs/lab.md", "code"),
        ("[all](../cli/main.py)", "lab.md", "docs/lab.md", "[all](reference/commands.md)"),
        ("[gone](../cli/gone.py)", "lab.md", "docs/lab.md", "[gone](../cli/gone.py)"),
        ("[w](https://example.org/a)", "lab.md", "docs/lab.md", "[w](https://example.org/a)"),
        ("[t](store.md#access)", "lab.md", "docs/lab.md", "[t](store.md#access)"),
    ],
)
def test_links_out_of_the_folder_are_rewritten(link: str, place: str, source: str, wanted: str) -> None:
    assert hooks.rewritten(link, place, source) == wanted


def test_the_page_of_settings_has_a_meaning_for_every_setting() -> None:
    page = settings.markdown()
    assert [name for name in Settings.model_fields if f"## {name}\n" not in page] == []
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \| (.*) \|$", page, re.MULTILINE)
    assert len(rows) > 100
    assert [row for row in rows if len(row[3]) < 10] == []
    assert (
        "repetitions",
        "integer; at least 1; at most 1000",
        "`1`",
        "Number of passes over the list.",
    ) in rows
