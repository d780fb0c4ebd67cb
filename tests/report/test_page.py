"""The page in a real browser: its contents on a phone, on a desktop and in print."""

from __future__ import annotations

import base64
import csv
import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

from reports import published_values, wording
from reports.page import page
from store import open_store
from store.load import loader
from store.tables import migrate
from tests import drawn
from tests.browser import DESK, PHONE, Browser
from tests.report import world
from tests.report.conftest import ReportedRun
from tests.store.rows import write

FIGURES = (
    "delay-one-vantage",
    "delay-all-vantages",
    "ack-delay-paper",
    "ack-delay-physical",
    "pto-samples",
    "first-pto-gain",
)
ONE_VANTAGE = "The delay at one vantage point (Figure 8 of the paper) is not drawn"

# Bounding boxes of an element and its visible texts.
BOXES = """
const figure = document.getElementById(arguments[0]);
const shown = [...figure.querySelectorAll('svg')].filter(node => node.getBoundingClientRect().width > 0);
const box = node => { const b = node.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
return shown.map(node => ({
  box: box(node),
  texts: [...node.querySelectorAll('text')].map(text => [text.textContent, box(text)]),
  size: Math.min(...[...node.querySelectorAll('text')].map(t => t.getBoundingClientRect().height)),
  label: node.getAttribute('aria-labelledby').split(' ').map(id => document.getElementById(id).textContent),
}));
"""

# Duplicate identifiers, and references to missing ones.
NAMES = """
const ids = [...document.querySelectorAll('[id]')].map(node => node.id);
const named = (attribute, cut) => [...document.querySelectorAll(`[${attribute}]`)]
  .flatMap(node => node.getAttribute(attribute).split(' ')).filter(text => text.startsWith(cut))
  .map(text => text.slice(cut.length).replace(')', ''));
const used = [...named('aria-labelledby', ''), ...named('href', '#'), ...named('clip-path', 'url(#')];
return [ids.filter((id, place) => ids.indexOf(id) !== place), used.filter(id => !ids.includes(id))];
"""


def opened(browser: Browser, path: Path, size: tuple[int, int]) -> None:
    """Open a page and check that it requests nothing else and reports no error."""
    visit = browser.open(path.as_uri(), size)
    assert visit.requests == [path.as_uri()]
    assert visit.complaints == []
    width = browser.script("return [document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1] == size[0], "the page scrolls sideways"
    assert browser.script("return document.querySelectorAll('script').length") == 0
    twice, nowhere = browser.script(NAMES)
    assert twice == [], "two elements have the same id"
    assert nowhere == [], "a reference to a missing element"


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_every_figure_is_present_and_readable(
    made: ReportedRun, browser: Browser, size: tuple[int, int]
) -> None:
    opened(browser, made.path, size)
    for name in FIGURES:
        (figure,) = browser.script(BOXES, name)  # only one of the two widths is visible
        left, top, right, bottom = figure["box"]
        assert right - left > 300 and bottom - top > 250, name
        assert left >= 0 and right <= size[0], name
        assert figure["size"] >= 11, f"{name} has text smaller than 11 pixels"
        assert all(len(text) > 10 for text in figure["label"]), f"{name} has no title or description"
        texts = [(text, box) for text, box in figure["texts"] if text.strip()]
        assert len(texts) > 10
        for text, box in texts:
            inside = box[0] >= left - 2 and box[1] >= top - 2 and box[2] <= right + 2 and box[3] <= bottom + 2
            assert inside, f"{name}: {text!r} is outside of the figure"
        apart(name, texts)


def apart(figure: str, texts: list[tuple[str, list[float]]]) -> None:
    """Check that texts overlap at most by the edges of their boxes, because boxes are higher than letters."""
    for number, (text, box) in enumerate(texts):
        for other_text, other_box in texts[:number]:
            across = min(box[2], other_box[2]) - max(box[0], other_box[0])
            down = min(box[3], other_box[3]) - max(box[1], other_box[1])
            assert not (across > 2 and down > 4), f"{figure}: {text!r} and {other_text!r} overlap"


def test_cells_of_table_1_are_the_stores_answers(made: ReportedRun, browser: Browser) -> None:
    browser.open(made.path.as_uri(), PHONE)
    cells = browser.script(
        "return [...document.querySelectorAll('#table1-paper [data-column], #table1-strict [data-column]')]"
        ".map(td => [td.closest('tr').dataset.cdn, td.dataset.column, td.textContent])"
    )
    paper = {row["cdn"]: row for row in made.ask("SELECT * FROM table1")}
    strict = {row["cdn"]: row for row in made.ask("SELECT * FROM table1_strict")}
    assert len(cells) == len(paper) * 3 + len(strict) * 7
    answered_kinds = ("iack", "coalesced", "sh_first")
    for cdn, column, text in cells:
        row = strict[cdn] if column in strict[cdn] or column.startswith("strict_") else paper[cdn]
        name = column.removeprefix("strict_")
        if column in ("domains", "iack_share_max", "variation"):
            row = paper[cdn]
        if name in ("iack_share_max", "variation"):
            assert text == f"{row[name] * 100:.1f}", (cdn, column)
        elif name == "excluded":
            assert text == f"{strict[cdn]['probes'] - sum(strict[cdn][kind] for kind in answered_kinds):,}"
        else:
            assert text == f"{row[name]:,}", (cdn, column)
    # By hand: 12 of 30 Amazon names send instant ACKs, and one name only in the first repetition.
    amazon = {column: text for cdn, column, text in cells if cdn == "Amazon"}
    assert (amazon["iack_share_max"], amazon["variation"], amazon["iack"]) == ("40.0", "3.3", "69")


def test_padded_instant_acks_use_the_budget(made: ReportedRun) -> None:
    text = made.path.read_text(encoding="utf-8")
    cells = re.findall(r'data-column="(padded_share|budget_share)">([0-9.]+)<', text)
    small, large = [("padded_share", "0.0"), ("budget_share", "1.6")], "Cloudflare"
    sending = [row["cdn"] for row in made.gathered.padded_acks.rows]
    assert large in sending and len(sending) > 3
    # 1,200 and 60 bytes of three times 1,252.
    padded = [("padded_share", "100.0"), ("budget_share", "31.9")]
    assert cells == [cell for cdn in sending for cell in (padded if cdn == large else small)]


def test_published_values_are_next_to_ours_unless_hidden(
    made: ReportedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = made.path.read_text(encoding="utf-8")
    assert re.findall(r'data-published="iack_share_max">([0-9.]+)<', text)[:2] == ["32.2", "41.0"]
    assert "published: 8.3 % (Amazon)." in text
    assert {"6.4", "3.2"} <= set(re.findall(r'data-published="ack_to_sh_ms">([0-9.]+)<', text))
    assert "87.3" in re.findall(r'data-published="coalesced_below_zero_share">([0-9.]+)<', text)
    assert {"delay", "ack_delay", "table1"} == set(made.gathered.published)
    monkeypatch.setenv(published_values.SWITCH, "hide")
    assert published_values.parts({"delay": ("ack_to_sh_ms",)}) == {}
    hidden = page.render(replace(made.gathered, published={}))
    assert "data-published" not in hidden and "published: 8.3 %" not in hidden


def test_each_question_on_the_page_gives_what_the_page_shows(made: ReportedRun, browser: Browser) -> None:
    browser.open(made.path.as_uri())
    texts = browser.script(
        "return [...document.querySelectorAll('details.sql pre')].map(pre => pre.textContent)"
    )
    assert len(texts) > 12
    with open_store(made.url) as store:
        answers = {text: store.rows(text) for text in texts}
    gathered = made.gathered
    for answer in (
        gathered.coverage_answer,
        gathered.outcomes,
        gathered.reasons,
        gathered.runs,
        gathered.padded_acks,
    ):
        assert answers[answer.sql] == answer.rows
    assert gathered.table is not None
    shares = answers[gathered.table.shares_sql]
    assert [row["iack_share_max"] for row in shares] == [row.iack_share_max for row in gathered.table.rows]
    assert sum(row["names"] for row in answers[gathered.table.names_sql]) > 100
    links = browser.script(
        "return [...document.querySelectorAll('a[download]')].map(a => [a.download, a.href])"
    )
    data = {name: _csv(href) for name, href in links}
    assert set(data) == {f"{name}.csv" for name in FIGURES}
    assert gathered.figure8 is not None
    for name, sql in (
        ("delay-one-vantage", gathered.figure8.curves.sql),
        ("delay-all-vantages", gathered.figure14.curves.sql),
        ("first-pto-gain", gathered.figure4.answer.sql),
    ):
        assert data[f"{name}.csv"] == _texts(answers[sql])
    both = data["ack-delay-paper.csv"] + data["ack-delay-physical.csv"]
    assert both == _texts(answers[gathered.figure10.curves.sql])


def _csv(href: str) -> list[dict[str, str]]:
    kind, _, text = href.partition(",")
    assert kind == "data:text/csv;charset=utf-8"
    return list(csv.DictReader(io.StringIO(unquote(text))))


def _texts(rows: list[dict[str, Any]]) -> list[dict[str, str]]:
    return [{key: str(value) for key, value in row.items()} for row in rows]


def test_foreign_text_is_shown_and_does_nothing(made: ReportedRun, browser: Browser) -> None:
    browser.open(made.path.as_uri())
    assert browser.driver.title != "caught"
    (shown,) = browser.script("return [...document.querySelectorAll('#reasons bdi')].map(b => b.textContent)"
                              ".filter(text => text.includes('script'))")  # fmt: skip
    assert shown == "</td><script>document.title='caught'</script>\\u{202e}\\u{7} $\\frac{"
    assert shown == wording.plain(world.HOSTILE)


def test_the_policy_forbids_everything_but_the_pages_own_style(made: ReportedRun, browser: Browser) -> None:
    opened(browser, made.path, DESK)
    # The browser rejects other styles than the page's, and reports this on the console.
    browser.script(
        "const s = document.createElement('style'); s.textContent = 'body { color: red }';"
        "document.head.append(s);"
        "const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; document.body.append(i);"
    )
    console = " ".join(entry["message"] for entry in browser.driver.get_log("browser"))
    assert "style-src" in console and "img-src" in console
    assert browser.script("return getComputedStyle(document.body).color") == "rgb(29, 29, 29)"


# Colours (CSS) of the page's texts and their backgrounds.
COLOURS = """
const background = node => { for (; node; node = node.parentElement) {
  const colour = getComputedStyle(node).backgroundColor;
  if (!/, 0\\)$|transparent/.test(colour)) return colour; } return 'rgb(255, 255, 255)'; };
return [...document.querySelectorAll('body, p, a, th, td, summary, pre, figcaption, .soft, .kicker, .made')]
  .filter(node => node.getBoundingClientRect().height > 0)
  .map(node => [node.tagName, getComputedStyle(node).color, background(node)]);
"""


def contrast(colour_a: str, colour_b: str) -> float:
    """Return the contrast ratio of two colours (WCAG 2.2, 1.4.3)."""

    def luminance(colour: str) -> float:
        channels = [int(number) / 255 for number in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    lighter, darker = sorted([luminance(colour_a), luminance(colour_b)], reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def pixels(browser: Browser) -> list[str]:
    """Return the colours (CSS) of all pixels in the axis labels at the left of the first figure."""
    box = browser.script(
        "const b = document.querySelector('figure svg').getBoundingClientRect();"
        "return [b.left + scrollX, b.top + scrollY, b.height];"
    )
    clip = {"x": box[0], "y": box[1], "width": 60, "height": box[2], "scale": 1}
    options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    shot = base64.b64decode(browser._devtools("Page.captureScreenshot", options)["data"])
    colours = np.asarray(Image.open(io.BytesIO(shot)).convert("RGB")).reshape(-1, 3).tolist()
    return [f"rgb({red}, {green}, {blue})" for red, green, blue in colours]


@pytest.mark.parametrize(("scheme", "paper"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(22, 24, 27)")])
def test_all_text_is_readable_in_light_and_dark(
    made: ReportedRun, browser: Browser, scheme: str, paper: str
) -> None:
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser._devtools("Emulation.setEmulatedMedia", media)
    try:
        opened(browser, made.path, DESK)
        found = browser.script(COLOURS)
        shown = pixels(browser)
    finally:
        browser._devtools("Emulation.setEmulatedMedia", {"features": []})
    assert found[0] == ["BODY", found[0][1], paper]
    assert [entry for entry in found if contrast(entry[1], entry[2]) < 4.5] == []
    assert shown[0] == paper, "a figure must have the page's background"
    assert max(contrast(colour, paper) for colour in set(shown)) > 7, "a figure's text must be readable"


def test_tables_have_the_width_of_the_page(made: ReportedRun, browser: Browser) -> None:
    opened(browser, made.path, DESK)
    cut = browser.script(
        "return [...document.querySelectorAll('.scroll')]"
        ".filter(table => table.scrollWidth > table.clientWidth)"
        ".map(table => table.getAttribute('aria-labelledby'))"
    )
    assert cut == []


def test_targets_in_the_lab_have_a_banner(made: ReportedRun) -> None:
    assert "All targets are servers of the lab" in made.path.read_text(encoding="utf-8")
    elsewhere = [row | {"in_lab": 0} for row in made.gathered.coverage_answer.rows]
    answer = replace(made.gathered.coverage_answer, rows=elsewhere)
    assert "of the lab" not in page.render(replace(made.gathered, coverage_answer=answer))


def test_figures_are_files_that_the_page_links_to(
    made: ReportedRun, tmp_path: Path, browser: Browser
) -> None:
    """Each figure has three formats and a data file. Equal rows give equal bytes."""
    path = page.write(made.gathered, tmp_path / "page", tmp_path / "figures")
    opened(browser, path, DESK)
    links = browser.script("return [...document.querySelectorAll('.saved a')].map(link => link.href)")
    found = {f"{name}.{ending}" for name in FIGURES for ending in ("svg", "png", "pdf", "csv")}
    assert {file.name for file in (tmp_path / "figures").iterdir()} == found
    assert {Path(link).name for link in links if link.startswith("file:")} == {
        name for name in found if not name.endswith(".csv")
    }
    assert all(Path(unquote(link.removeprefix("file://"))).is_file() for link in links if link[0] == "f")
    first = tmp_path / "figures" / FIGURES[0]
    assert Image.open(first.with_suffix(".png")).width == 3 * 720
    assert first.with_suffix(".pdf").read_bytes().startswith(b"%PDF-")
    assert "Cloudflare" in first.with_suffix(".svg").read_text(encoding="utf-8")
    second_files = page.write_figures(made.gathered, tmp_path / "again")
    assert {file.name: file.read_bytes() for file in second_files} == {
        file.name: file.read_bytes() for file in (tmp_path / "figures").iterdir()
    }


def test_the_page_prints(made: ReportedRun, browser: Browser) -> None:
    browser.open(made.path.as_uri(), PHONE)
    pdf = browser.pdf()
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    assert 5 <= pages <= 14
    browser._devtools("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = browser.script(
            "return [...document.querySelectorAll('details, nav, .wide, .narrow')]"
            ".map(e => [e.className || e.tagName, e.getBoundingClientRect().height > 0])"
        )
    finally:
        browser._devtools("Emulation.setEmulatedMedia", {"media": ""})
    assert {name for name, visible in shown if visible} == {"wide"}


def test_the_run_is_described(made: ReportedRun, browser: Browser) -> None:
    browser.open(made.path.as_uri())
    facts = dict(
        browser.script(
            "return [...document.querySelectorAll('#facts tr')]"
            ".map(tr => [...tr.cells].map(cell => cell.textContent))"
        )
    )
    assert facts["Run"] == made.run
    assert (facts["Campaign"], facts["State when it was loaded"]) == ("small", "done")
    assert facts["Answer window, settling time"] == "3000 ms, 100 ms"
    assert facts["Probe template (SHA-256)"] == "5d" * 32
    assert re.fullmatch("[0-9a-f]{64}", facts["Settings (SHA-256)"])
    text = made.path.read_text(encoding="utf-8")
    assert "All vantage points are complete" in text
    assert "cid_key" not in text
    assert browser.script("return document.querySelectorAll('#stages tbody tr').length") == 6


def test_missing_stages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    failed = [("sao_paulo", 1), ("sao_paulo", 2), ("hamburg", 2)]
    world.campaign(tmp_path, tmp_path / "store", without=failed)
    with open_store(f"chdb:{tmp_path / 'store'}") as store:
        gathered = page.collect(store)
    assert gathered is not None
    assert len(gathered.coverage.missing) == 3
    assert "sao_paulo, repetition 1: the probe stage is failed" in gathered.coverage.missing[1]
    html = page.render(gathered)
    assert "Parts of the run are missing" in html
    assert html.count('<td class="gap">missing</td>') == 3
    assert "the cable was pulled" in html


@drawn.parametrize("oddity", world.odd_rows(), 4)
def test_odd_stores_have_a_page(oddity: str, tables: Path, tmp_path: Path, browser: Browser) -> None:
    assert tables.is_dir()
    results = loader.load_files([write(tmp_path / "quic_probe.parquet", world.odd_rows()[oddity])])
    assert all(isinstance(result, loader.Loaded) for result in results), results
    with open_store() as store:
        gathered = page.collect(store)
    path = page.write(gathered, tmp_path)
    opened(browser, path, PHONE)
    text = browser.script("return document.body.innerText")
    assert "nan" not in text.lower().split() and "None" not in text
    assert "is not in the store" in text  # the run's manifest
    expected = {
        "nothing instant": [
            "No CDN sent an instant ACK",
            ONE_VANTAGE,
            "(Figure 14 of the paper)",
        ],
        "nothing answered": [ONE_VANTAGE, "(Figure 10 of the paper, paper) is not drawn"],
        "nothing sent": ["nothing sent", ONE_VANTAGE],
        "no CDN, or IPv6": ["Table 1 is empty", "No CDN was measured"],
        "no ACK Delay": [f"(Figure 10 of the paper, {way}) is not drawn" for way in ("paper", "physical")],
        "many CDNs": ["could not be distinguished: Net"],
        "hostile names": ["</td><script>document.title"],
    }
    for sentence in expected.get(oddity, ["(Figure 8 of the paper)."]):
        assert sentence in text, sentence


def test_a_store_without_runs_has_a_page(tables: Path, tmp_path: Path, browser: Browser) -> None:
    assert tables.is_dir()
    with open_store() as store:
        gathered = page.collect(store)
    assert gathered is None
    opened(browser, page.write(gathered, tmp_path), PHONE)
    assert "No runs yet" in browser.script("return document.body.innerText")


def test_a_store_without_tables_is_one_sentence(place: Path) -> None:
    from firstflight.errors import UsageError

    with open_store(write=True) as store:
        assert migrate.applied(store) == []
        with pytest.raises(UsageError, match=r"lacks tables or views .*`firstflight db migrate`"):
            page.collect(store)
    assert place.is_dir()
