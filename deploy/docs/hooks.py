"""Hooks of MkDocs (mkdocs.yml): add generated pages, list folders in the navigation, rewrite links."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Paths on the site of the top folder's pages.
PROJECT = {
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "project/changes.md": "CHANGELOG.md",
    "project/conduct.md": "CODE_OF_CONDUCT.md",
}
GENERATED = ("commands", "settings", "experiments", "metrics")
# Generated page -> its source file. A link to the source leads to the page.
SOURCES = {
    "reference/settings.md": "firstflight/settings/sections.py",
    "reference/commands.md": "cli/main.py",
    "reference/experiments.md": "testbed/experiment/experiment.py",
}
# Titles of the navigation entries that list all pages in a folder of docs/.
FOLDERS = {
    "A campaign in detail": "campaign",
    "A site in detail": "site",
    "Measurements": "measured",
    "The testbed in detail": "testbed",
    "Design notes": "design",
}
_LINK = re.compile(r"(?<!!)\[([^\]\n]*(?:\n[^\]\n]*)?)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the entries of the navigation that list a folder; an entry without pages disappears."""
    for part in config.nav or []:
        for title, pages in part.items():
            filled = [_filled(page) for page in pages]
            part[title] = [page for page in filled if not isinstance(page, dict) or all(page.values())]
    return config


def _filled(page: Any) -> Any:
    """Return an entry of the navigation. An entry in `FOLDERS` gets the folder's pages."""
    if not isinstance(page, dict):
        return page
    (title,) = page
    if title not in FOLDERS:
        return page
    folder = FOLDERS[title]
    entries = [
        {_title(path): f"{folder}/{path.name}"} for path in sorted((ROOT / "docs" / folder).glob("*.md"))
    ]
    return {title: [*page[title], *entries]}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages, and the pages in the top folder."""
    from mkdocs.structure.files import File

    for name, content in generated().items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    for place, name in PROJECT.items():
        content = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Return the text of a page with its links to files outside of docs/ changed."""
    place = page.file.src_uri
    return rewritten(markdown, place, PROJECT.get(place, f"docs/{place}"))


def generated() -> dict[str, str]:
    """Return the pages of the reference that come from the code, keyed by file name."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from deploy.docs import commands, experiments, metrics, settings

    modules = {"commands": commands, "settings": settings, "experiments": experiments, "metrics": metrics}
    return {name: modules[name].markdown() for name in GENERATED}


def rewritten(markdown: str, place: str, source: str) -> str:
    """Return the text with links as the site needs them.

    `place`: the page's path on the site; `source`: the file that it comes from, below the top folder. A link
    to a page of the top folder leads to its place on the site. A link to any other file becomes its label,
    because the site has no copy of the code. A link to a missing file stays, and MkDocs rejects it.
    """
    places = {name: at for at, name in (PROJECT | SOURCES).items()}

    def site_link(match: re.Match[str]) -> str:
        label, target, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", target) or target.startswith("/"):
            return match[0]
        tree_path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if tree_path in places:
            at = places[tree_path]
        elif tree_path.startswith("docs/"):
            at = tree_path.removeprefix("docs/")
        elif (ROOT / tree_path).exists():
            return label
        else:
            return match[0]
        return f"[{label}]({posixpath.relpath(at, posixpath.dirname(place) or '.')}{anchor})"

    return _LINK.sub(site_link, markdown)


def _title(path: Path) -> str:
    match = _TITLE.search(path.read_text(encoding="utf-8"))
    return match[1] if match else path.stem
