"""The downloads page: its numbers compared with numpy and with published values, and in a real browser."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports.downloads import figures, option_survey, page, published, tables
from store import open_store
from store.load import loader
from tests import stores
from tests.browser import DESK, PHONE, Browser
from tests.report.test_page import BOXES, apart, opened
from tests.store.rows import RUN, download, write

VANTAGES = ("hamburg", "los_angeles")
SETS = ("warmup", "bl", "ws14", "all14", "quiche")
CDNS = ("Akamai", "Cloudflare", None)
HOSTILE = "</td><script>document.title='caught'</script>"
FIGURES = tuple(page.FILES.values())


def rows() -> list[dict[str, Any]]:
    """Return the downloads of 30 names, in two repetitions, from a fixed seed."""
    drawn, made = random.Random(14), []
    for vantage in VANTAGES:
        for repetition in (1, 2):
            for number in range(30):
                for position, name in enumerate(SETS):
                    is_quic = name == "quiche"
                    made.append(
                        download(
                            vantage=vantage,
                            repetition=repetition,
                            position=position,
                            domain=f"name{number}.example",
                            url=f"https://name{number}.example/file",
                            set=name,
                            client="quiche" if is_quic else "curl",
                            cdn=CDNS[number % 3],
                            body_bytes=(1_000_000, 3_000_000, 10_485_760)[number % 3],
                            outcome="timeout" if number == 29 else "done",
                            anrw_throughput_bps=round(1e6 * drawn.lognormvariate(2, 1)),
                            rtt_mean_us=None if is_quic else round(1e4 * drawn.uniform(1, 9)),
                            client_limited=number == 28,
                        )
                    )
    return made


@dataclass(frozen=True)
class DownloadsPage:
    """Downloads in a store, the content that the page collects from them, and the page."""

    rows: list[dict[str, Any]]
    url: str
    gathered: page.DownloadsContent
    path: Path

    def compared(self, figure: str, vantage: str, curve: str) -> list[dict[str, Any]]:
        """Return the rows that are samples of a curve."""
        return [
            row
            for row in self.rows
            if row["vantage"] == vantage
            and row["outcome"] == "done"
            and row["set"] != "quiche"
            and (figure == "2" or row["set"] != "warmup")
            and curve in ("all", row["set"] if figure == "2" else row["cdn"] or "Others")
        ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DownloadsPage]:
    """Build the page for downloads from two vantage points."""
    folder = tmp_path_factory.mktemp("downloads")
    url = f"chdb:{folder / 'store'}"
    every = rows()
    paths = [
        write(
            folder / vantage / str(repetition) / "download.parquet",
            [row for row in every if (row["vantage"], row["repetition"]) == (vantage, repetition)],
            "download",
        )
        for vantage in VANTAGES
        for repetition in (1, 2)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_STORE", url)
        stores.with_tables(folder / "store")
        loader.load_files(paths)
        with open_store() as store:
            gathered = page.collect(store, RUN)
    yield DownloadsPage(every, url, gathered, page.write(gathered, folder / "page"))


@pytest.mark.parametrize(
    ("figure", "curve", "column"),
    [
        ("1a", "all", "anrw_throughput_bps"),
        ("1b", "all", "rtt_mean_us"),
        ("2", "warmup", "anrw_throughput_bps"),
        ("2", "all14", "anrw_throughput_bps"),
        ("3", "Akamai", "anrw_throughput_bps"),
        ("3", "Others", "anrw_throughput_bps"),
    ],
)
@pytest.mark.parametrize("vantage", VANTAGES)
def test_curves_are_those_of_the_rows(
    made: DownloadsPage, figure: str, curve: str, column: str, vantage: str
) -> None:
    """Quantiles equal numpy's; each step has the number of values up to it."""
    samples = made.compared(figure, vantage, curve)
    unlimited = [row for row in samples if not row["client_limited"]]
    values = np.array([row[column] for row in unlimited], dtype=float)
    found = curve_row(made, figure, vantage, curve)
    assert found["samples"] == len(unlimited)
    assert found["limited"] == len(samples) - len(unlimited)
    assert found["names"] == len({row["domain"] for row in unlimited})
    assert found["quantiles"] == pytest.approx(list(np.quantile(values, published.LEVELS)))
    edges = [10 ** (step / 40) * (1 + 1e-7) for step in found["steps"]]
    assert found["at_most"] == [int((values <= edge).sum()) for edge in edges]
    assert found["at_most"][-1] == len(unlimited)


def test_means_of_names_are_one_sample_each(made: DownloadsPage) -> None:
    of_name: dict[str, list[int]] = {}
    for row in made.compared("3", "hamburg", "Akamai"):
        if not row["client_limited"]:
            of_name.setdefault(row["domain"], []).append(row["anrw_throughput_bps"])
    means = [np.mean(values) for values in of_name.values()]
    found = curve_row(made, "3n", "hamburg", "Akamai")
    assert (
        found["samples"]
        == found["names"]
        == len(means)
        < curve_row(made, "3", "hamburg", "Akamai")["samples"]
    )
    assert found["quantiles"] == pytest.approx(list(np.quantile(means, published.LEVELS)))


def curve_row(made: DownloadsPage, figure: str, vantage: str, curve: str) -> dict[str, Any]:
    """Return the answer's row for a curve."""
    (row,) = (
        row
        for row in made.gathered.curves.rows
        if (row["figure"], row["vantage"], row["curve"]) == (figure, vantage, curve)
    )
    return row


def test_outcomes_and_sizes_count_every_row(made: DownloadsPage) -> None:
    outcomes = made.gathered.outcomes.rows
    assert sum(row["planned"] for row in outcomes) == len(made.rows)
    for name, expected in {"successful": 29, "failed": 1, "limited": 1, "skipped": 0}.items():
        assert {row[name] for row in outcomes} == {2 * expected}
    sizes = {(row["vantage"], row["size"], row["of_set"]): row for row in made.gathered.sizes.rows}
    assert len(sizes) == len(VANTAGES) * 3 * len(SETS)
    of_bl = [
        row["anrw_throughput_bps"]
        for row in made.compared("2", "hamburg", "bl")
        if row["body_bytes"] == 3_000_000 and not row["client_limited"]
    ]
    found = sizes["hamburg", "2 to 5 MB", "bl"]
    assert found["downloads"] == len(of_bl)
    assert found["quartiles_bps"] == pytest.approx(list(np.quantile(of_bl, [0.25, 0.5, 0.75])))
    assert sizes["hamburg", "5 MB and more", "quiche"]["downloads"] > 0


def test_published_medians_are_printed_with_ours(made: DownloadsPage) -> None:
    """The page shows known medians of both editions, and ours in the same unit."""
    parts = dict(page.numbers("1", made.gathered.curves.rows, {"hamburg": "Hamburg"}))
    throughput, rtt = parts["Throughput [Mbit/s]"], parts["Mean round-trip time [ms]"]
    at = page.COLUMNS.index("50%")
    medians = {tuple(line[:2]): line[at] for line in throughput}
    assert float(medians["ANRW 2023", "MUC"]) == pytest.approx(9.0, abs=0.05)
    assert float(medians["with warm-ups", "SGP"]) == pytest.approx(2.1, abs=0.05)
    ours = curve_row(made, "1a", "hamburg", "all")["quantiles"][3] / 1e6
    assert float(medians["ours", "Hamburg"]) == pytest.approx(ours, rel=0.01)
    assert {line[1] for line in rtt} == {"Hamburg", "los_angeles", "MUC", "SFO", "SGP"}
    assert len(published.quantiles()) == 84
    shown = sum(len([line for line in lines if line[0] != "ours"]) for figure in page.TITLES
                for _, lines in page.numbers(figure, [], {}))  # fmt: skip
    assert shown == 84 + 36  # the published quantiles of Figure 3 appear with both of our figures


def test_published_values_can_be_hidden(made: DownloadsPage, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = page.render(made.gathered, {})
    assert "ANRW 2023</td>" in shown and "Published values" in shown
    monkeypatch.setenv("FIRSTFLIGHT_PUBLISHED", "hide")
    assert [*tables.published(), *option_survey.published(), *published.quantiles()] == []
    ours = [value for value in made.gathered.values if value.edition == tables.OURS]
    hidden = page.render(replace(made.gathered, values=ours, survey=[]), {})
    assert "ANRW 2023</td>" not in hidden and "with warm-ups" not in hidden and "Published" not in hidden
    assert option_survey.text([]).startswith(option_survey.TITLE) and tables.text(ours)


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_page_in_a_browser(made: DownloadsPage, browser: Browser, size: tuple[int, int]) -> None:
    opened(browser, made.path, size)
    for name in FIGURES:
        (figure,) = browser.script(BOXES, name)
        left, top, right, bottom = figure["box"]
        assert right - left > 300 and bottom - top > 200, name
        assert figure["size"] >= 11, f"{name} has text smaller than 11 pixels"
        assert all(len(text) > 10 for text in figure["label"]), f"{name} has no title or description"
        texts = [(text, box) for text, box in figure["texts"] if text.strip()]
        assert len(texts) > 10
        apart(name, texts)
    lengths = browser.script(
        "return [...document.querySelectorAll('table:not(.facts)')].map(table => table.rows.length)"
    )
    assert min(lengths) > 1


def test_each_question_on_the_page_gives_what_the_page_shows(made: DownloadsPage, browser: Browser) -> None:
    browser.open(made.path.as_uri())
    texts = browser.script(
        "return [...document.querySelectorAll('details.sql pre')].map(pre => pre.textContent)"
    )
    with open_store(made.url) as store:
        answers = {text: store.rows(text) for text in texts}
    gathered = made.gathered
    for answer in (gathered.curves, gathered.outcomes, gathered.sizes):
        assert answers[answer.sql] == answer.rows
    cells = browser.script(
        "return [...document.querySelectorAll('#table2 tbody tr')]"
        ".map(tr => [...tr.cells].map(cell => cell.textContent))"
    )
    assert cells == [[cell or "" for cell in line] for line in tables.grid("2", gathered.values)[1:]]


def test_each_pair_of_sets_is_compared_once(made: DownloadsPage) -> None:
    """Pairs have the direction of the papers, with the baseline second. Shares use the same pairs."""
    lines = {
        edition: {
            value.row for value in made.gathered.values if value.table == "2" and value.edition == edition
        }
        for edition in tables.EDITIONS
    }
    ours = lines.pop(tables.OURS)
    assert ours == {f"{name}/BL" for name in ("WARMUP", "WS14", "ALL14", "quiche")} | {
        f"{name}/ALL14" for name in ("WARMUP", "WS14", "quiche")
    } | {"WARMUP/WS14", "quiche/WS14", "quiche/WARMUP"}
    for pair in (pair for published_pairs in lines.values() for pair in published_pairs):
        first, second = pair.split("/")
        assert f"{second}/{first}" not in ours, pair


def test_throughput_by_size_is_a_figure_with_all_counts_as_data(made: DownloadsPage, tmp_path: Path) -> None:
    paths = {path.name: path for path in page.write_figures(made.gathered, tmp_path)}
    assert len(paths) == 4 * len(FIGURES)
    with paths["throughput-by-size.csv"].open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(made.gathered.sizes.rows) == len(VANTAGES) * 3 * len(SETS)
    assert [int(row["limited"]) for row in found] == [row["limited"] for row in made.gathered.sizes.rows]
    text = made.path.read_text(encoding="utf-8")
    for row in made.gathered.sizes.rows:
        assert f"{row['size']}, {row['of_set']}: median {row['quartiles_bps'][1] / 1e6:.3g} Mbit/s" in text


def test_hostile_names_are_text(tmp_path: Path, browser: Browser) -> None:
    url = f"chdb:{tmp_path / 'store'}"
    row = download(vantage=HOSTILE, cdn=HOSTILE, anrw_throughput_bps=5)
    path = write(tmp_path / "download.parquet", [row], "download")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FIRSTFLIGHT_STORE", url)
        stores.with_tables(tmp_path / "store")
        loader.load_files([path])
        with open_store() as store:
            found = page.write(page.collect(store, RUN), tmp_path / "page")
    opened(browser, found, DESK)
    assert "caught" not in browser.script("return document.title")


def test_equal_rows_give_equal_bytes(made: DownloadsPage) -> None:
    assert page.render(made.gathered).encode() == made.path.read_bytes()


def test_more_sets_than_colours_are_named() -> None:
    curves = [
        figures.DownloadCurve(f"set{number}", [1.0], [1.0], samples=10 + number, median=1.0)
        for number in range(9)
    ]
    drawn = figures.looks([figures.DownloadPanel("Hamburg", figures.MBIT, curves)])
    assert list(drawn) == [f"set{number}" for number in range(2, 9)]
