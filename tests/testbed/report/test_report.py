"""The page of an experiment in a real browser: its contents, without any script or network access."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from reports.numbers.compared import ComparisonPanel, ComparisonSeries
from reports.tables.columns import PrintedColumn
from testbed import measures, report, summary
from testbed.computed import COMPUTED, DERIVED
from testbed.experiment import conditions, experiment
from testbed.summary import SummaryPage
from testbed.trials import block, trial_row
from testbed.trials.captures import block_files
from tests import drawn
from tests.browser import DESK, PHONE, Browser
from tests.browser import browser as browser
from tests.dashboard.test_pages_in_a_browser import dark, serious
from tests.report.test_page import BOXES, apart, opened
from tests.testbed.experiments import find
from tests.testbed.measures.test_acks import trial as acked

HOSTILE = "</bdi></td><script>document.title='caught'</script>\u202e"
OPEN = ("iack-half-hello", "certificate-limit", "iack-crossing", "iack-map")
"""Experiments that no paper has, so they have no expected values."""
LOOKS = {"desk": (DESK, False), "dark": (DESK, True), "phone": (PHONE, False)}
"""Size of the window, and whether the page is dark."""
EXPERIMENTS = ("iack-ttfb", "iack-first-pto", "ack-ratio", "ack-loss", "ack-survey", "pacing", *OPEN)
FIRSTFLIGHT = (sys.executable, "-P", "-m", "cli")
CELLS = "return [...document.querySelectorAll(arguments[0])].map(tr => [...tr.cells].map(c => c.textContent))"


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return two trials of each cell with distinct made-up values; impossible cells are unavailable."""
    made = []
    for number, cell in enumerate(find(name).cells()):
        why = block.blocks(name, cell, 2)[0].unavailable()
        for repetition in (1, 2):
            if why is not None:
                made.append(trial_row.without_trial(name, cell, repetition, "unavailable", why))
                continue
            late = (cell.answering == "wfc") * 3 * cell.certificate_delay_ms
            made.append(
                {
                    **acked(cell, repetition, transfer_us=1_000_000 + 7000 * number),
                    "experiment": name,
                    "first_stream_us": round(1000 * (3 * cell.rtt_ms + late + 5 * (number % 7) + repetition)),
                    "first_ack_us": round(1000 * (cell.rtt_ms + late)),
                    "pto_first_us": round(3000 * (cell.rtt_ms + late)),
                    "rtt_first_us": round(1000 * cell.rtt_ms),
                    "queue_drops": 10 * number,
                    "gaps_up_to_100us_share": 0.5,
                    "share_in_trains_1": 0.1 + 0.02 * number,
                    "share_in_trains_le5": 0.99,
                    "gap_p50_ns": 12_000,
                    "longest_train": 16,
                    "guest_cpu_s": 0.1,
                    "kernel": "linux-6.12",
                    "body_bytes": cell.body_bytes,
                }
            )
    return made


def firstflight(*arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(report.__file__).parents[1]
    return subprocess.run([*FIRSTFLIGHT, *arguments], cwd=root, capture_output=True, text=True, check=False)


def made_of(name: str, rows: list[dict[str, Any]], folder: Path) -> report.ReportContent:
    experiment = find(name)
    return report.of_trials(name, experiment, folder, rows, measures.results(experiment, folder, rows), None)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[report.ReportContent, Path]]:
    """All pages and their reports."""
    folder = tmp_path_factory.mktemp("pages")
    made = {name: made_of(name, rows_of(name), folder / name) for name in EXPERIMENTS}
    made |= {name: report.of_figure(name, figure) for name, figure in COMPUTED.items()}
    rows = {name: rows_of(name) for name in ("iack-loss-server", "iack-loss-client")}
    made |= {name: report.of_derived(name, derived, folder, rows) for name, derived in DERIVED.items()}
    return {
        name: (page_report, report.write(page_report, folder / f"{name}.html"))
        for name, page_report in made.items()
    }


@drawn.parametrize("name, look", product([*EXPERIMENTS, *COMPUTED, *DERIVED], LOOKS), 15)
def test_pages_in_a_browser(
    pages: dict[str, tuple[report.ReportContent, Path]], browser: Browser, name: str, look: str
) -> None:
    """No request, complaint or script; no fault that axe-core finds; readable figures.

    The largest page, iack-map, needs 14 s while ten other processes compete for two processors. A script
    may run for 120 s (tests/browser.py).
    """
    made, path = pages[name]
    size, is_dark = LOOKS[look]
    dark(browser, on=is_dark)
    try:
        opened(browser, path, size)
        background = browser.script("return getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") is not is_dark
        # The test runs only the scripts below; axe-core does not change the page.
        figures = browser.script(BOXES, "figure") if made.panels else []
        for figure in figures:
            left, top, right, bottom = figure["box"]
            assert right - left > 300 and bottom - top > 120
            assert left >= 0 and right <= size[0]
            assert figure["size"] >= 11, "text of less than 11 pixels"
            assert all(len(text) > 10 for text in figure["label"]), "no title or description"
            texts = [(text, box) for text, box in figure["texts"] if text.strip()]
            assert len(texts) > 5
            apart(name, texts)
        assert len(figures) == bool(made.panels) == (name != "ack-overhead")
        assert serious(browser) == []
    finally:
        dark(browser, on=False)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_page_has_what_was_measured(
    pages: dict[str, tuple[report.ReportContent, Path]], browser: Browser, name: str
) -> None:
    """The table equals the text's, the outcomes count every trial, and each verdict is present."""
    made, path = pages[name]
    browser.open(path.as_uri())
    shown = browser.script(CELLS, "#values tbody tr")
    columns = [column.cells for column in made.summary.columns]
    expected = [["–" if cell == "-" else cell for cell in line] for line in zip(*columns, strict=True)]
    # A row's name is not a value.
    assert [line[1:] for line in shown] == [line[1:] for line in expected]
    rows = rows_of(name)
    outcomes = {
        line[0]: int(line[1].replace(",", "")) for line in browser.script(CELLS, "#outcomes tbody tr")
    }
    assert outcomes == Counter(row["outcome"] for row in rows)
    checks = browser.script(CELLS, "#checks tbody tr")
    assert [line[1] for line in checks] == [
        "met" if check.met else "not met" for check in made.summary.checks
    ]
    assert bool(made.summary.checks) == (name not in OPEN)
    text = browser.script("return document.body.textContent")
    seeds = "" if find(name).repetitions == 2 else " --seeds 2"
    assert f"firstflight testbed run {name} --jobs 2{seeds}\n" in text
    for stack in {row["client"] for row in rows if row["outcome"] == "done"}:
        assert [stack, "client", "1.2"] in [line[:3] for line in browser.script(CELLS, "#programs tbody tr")]


def test_a_derived_page_has_the_trials_that_it_is_made_of(
    pages: dict[str, tuple[report.ReportContent, Path]],
) -> None:
    made, _ = pages["iack-better"]
    both = [find(name) for name in ("iack-loss-server", "iack-loss-client")]
    cells = sum(len(experiment.cells()) for experiment in both)
    assert made.outcomes is not None
    assert (sum(made.outcomes.values()), made.cells) == (2 * cells, (cells, cells))
    assert made.repeat == [
        "make testbed-setup",
        "firstflight testbed run iack-loss-server --jobs 2 --seeds 2",
        "firstflight testbed run iack-loss-client --jobs 2 --seeds 2",
        "firstflight testbed show iack-better",
        "firstflight testbed verify iack-loss-server --seeds 2",
        "firstflight testbed verify iack-loss-client --seeds 2",
    ]
    assert [panel.title for panel in made.panels] == [
        "certificate within the limit, server flight lost",
        "certificate within the limit, second flight lost",
    ]
    assert any("No trials of iack-ttfb" in note for note in made.summary.notes)


def test_the_cells_that_were_measured_are_those_to_repeat(tmp_path: Path) -> None:
    """`--cells` names a complete pair of stacks by a prefix, and other cells in full."""
    of = {name: rows_of(name) for name in ("iack-loss-server", "iack-loss-client")}
    some = [row for row in of["iack-loss-server"] if (row["client"], row["server"]) == ("quinn", "quic-go")]
    of_first_cell = [
        row for row in of["iack-loss-client"] if row["cell"] == of["iack-loss-client"][0]["cell"]
    ]
    rows = {"iack-loss-server": some, "iack-loss-client": of_first_cell[:1]}
    made = report.of_derived("iack-better", DERIVED["iack-better"], tmp_path, rows)
    loss_server, loss_client = "--cells quinn-quic-go-", f"--cells {of_first_cell[0]['cell']}"
    assert made.repeat == [
        "make testbed-setup",
        f"firstflight testbed run iack-loss-server --jobs 2 --seeds 2 {loss_server}",
        f"firstflight testbed run iack-loss-client --jobs 2 --seeds 1 {loss_client}",
        "firstflight testbed show iack-better",
        f"firstflight testbed verify iack-loss-server --seeds 2 {loss_server}",
        f"firstflight testbed verify iack-loss-client --seeds 1 {loss_client}",
    ]
    for name, experiment_rows in rows.items():
        (run,) = (line for line in made.repeat if f"run {name} " in line)
        patterns = tuple(run.rpartition(" ")[2].split(","))
        names = {cell.name for cell in experiment.chosen(find(name), patterns)}
        assert names == {row["cell"] for row in experiment_rows}
    loss = find("iack-loss-server")
    found = measures.results(loss, tmp_path, some)
    file = report.of_trials("own", loss, tmp_path, some, found, Path("my own.toml"))
    assert file.repeat == [
        "make testbed-setup",
        f"firstflight testbed run --scenario 'my own.toml' --jobs 2 --seeds 2 {loss_server}",
        "firstflight testbed show --scenario 'my own.toml'",
    ]


def test_what_is_held_and_what_is_varied() -> None:
    found = {condition.name: condition for condition in conditions.conditions(find("iack-ttfb").cells())}
    assert found["Server"].varied and len(found["Server"].values) == 6
    assert found["RTT [ms]"].values == ("9",)
    assert not found["RTT [ms]"].varied
    assert found["Delay of the certificate [ms]"].values == ("200",)
    assert found["Rate to the server [Mbit/s]"].values == ("as to the client",)
    assert [condition.varied for condition in conditions.conditions(find("ack-loss").cells())][:4] == [
        True
    ] * 4


def test_every_column_has_a_distinct_name() -> None:
    """A column's title in the text may lack its first line, which the preceding column shares."""
    for name in EXPERIMENTS:
        found = measures.results(find(name), Path(), rows_of(name))
        assert found.lines
        headings = summary.headings(found.summary().columns)
        assert len(set(headings)) == len(headings), name
        assert all(headings)
    found = measures.results(find("pacing"), Path(), rows_of("pacing"))
    headings = summary.headings(found.summary().columns)
    assert headings[4:8] == ["dropped", "dropped, published", "goodput Mbit/s", "goodput Mbit/s, published"]


def test_trials_that_were_not_done_are_counted(tmp_path: Path, browser: Browser) -> None:
    """Failed trials appear with their reason as plain text, cells without rows as not begun."""
    rows = [row for row in rows_of("ack-ratio") if row["cell"].startswith("quinn-quinn-wfc-30ms")]
    assert len(rows) == 6
    rows[1] = {**rows[1], "outcome": "timeout", "detail": HOSTILE}
    path = report.write(made_of("ack-ratio", rows, tmp_path), tmp_path / "page.html")
    opened(browser, path, DESK)
    assert "caught" not in browser.script("return document.title")
    cells = len(find("ack-ratio").cells())
    assert browser.script(CELLS, "#outcomes tbody tr") == [
        ["done", "5"],
        ["timeout", "1"],
        ["not begun", str(2 * cells - 6)],
    ]
    ((outcome, trials, of_cells, reason),) = browser.script(CELLS, "#reasons tbody tr")
    assert (outcome, trials, of_cells) == ("timeout", "1", "1")
    assert "<script>" in reason and "\u202e" not in reason


def test_a_page_without_any_trial_that_was_done(tmp_path: Path, browser: Browser) -> None:
    rows = [{**row, "outcome": "guest_failed", "detail": "no memory"} for row in rows_of("pacing")]
    path = report.write(made_of("pacing", rows, tmp_path), tmp_path / "page.html")
    opened(browser, path, PHONE)
    assert "No trial was done" in browser.script("return document.body.textContent")
    # The page then has only the published values.
    assert serious(browser) == []


def test_captures_are_named_by_their_hashes(tmp_path: Path) -> None:
    """`verify` prints the same hashes. Unfinished blocks and blocks without captures have no hash."""
    for place, names in {
        "cell/0001-0002": ("trials.jsonl", "path.pcap", "sender.pcap", "client-0001.sqlog"),
        "cell/0003-0004.part": ("trials.jsonl", "path.pcap"),
        "cell/0005-0006": ("trials.jsonl",),
    }.items():
        (tmp_path / place).mkdir(parents=True)
        for name in names:
            (tmp_path / place / name).write_bytes(name.encode())
    found = block_files.digests(tmp_path)
    assert found == {"cell/0001-0002": block_files.digest(tmp_path / "cell/0001-0002")}
    # Each of these is measured, so each is in the hash.
    for name in ("trials.jsonl", "path.pcap", "sender.pcap", "client-0001.sqlog"):
        file = tmp_path / "cell/0001-0002" / name
        before = file.read_bytes()
        file.write_bytes(before + b"x")
        assert block_files.digests(tmp_path) != found, name
        file.write_bytes(before)
    text = report.render(made_of("ack-ratio", rows_of("ack-ratio"), tmp_path))
    assert f"{found['cell/0001-0002']}  cell/0001-0002" in text
    assert text == report.render(made_of("ack-ratio", rows_of("ack-ratio"), tmp_path))


def test_the_command_writes_a_page(tmp_path: Path) -> None:
    rows = rows_of("ack-ratio")
    for row in rows:
        folder = tmp_path / "out" / "ack-ratio" / row["cell"] / "0001-0002"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / block_files.ROWS).open("a") as file:
            file.write(json.dumps(row) + "\n")
    output = ["--out", str(tmp_path / "out"), "--page", str(tmp_path / "page.html")]
    done = firstflight("testbed", "show", "ack-ratio", *output)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path / 'page.html'}\n", "")
    assert "ack-ratio" in (tmp_path / "page.html").read_text()
    for further in (["--part", "trials"], ["--format", "jsonl"]):
        refused = firstflight("testbed", "show", "ack-ratio", *output, *further)
        assert refused.returncode == 2
        assert "--page writes a page, not rows" in refused.stderr
    (tmp_path / "file").touch()
    lost = firstflight("testbed", "show", "ack-ratio", *output[:3], str(tmp_path / "file" / "page.html"))
    assert (lost.returncode, lost.stdout, lost.stderr.count("\n")) == (3, "", 1)
    computed = firstflight("testbed", "show", "iack-pto", "--page", str(tmp_path / "pto.html"))
    assert computed.returncode == 0
    assert "PTO [ms]" in (tmp_path / "pto.html").read_text()


def test_external_text_stays_text() -> None:
    """A user's own experiment may have any title."""
    columns = [PrintedColumn(HOSTILE, [HOSTILE], right=False), PrintedColumn("b\n", [HOSTILE])]
    summary = SummaryPage(HOSTILE, HOSTILE, columns, notes=[HOSTILE])
    panel = ComparisonPanel(HOSTILE, "ms", (ComparisonSeries(HOSTILE, ((HOSTILE, 1.0),)),))
    made = report.render(report.ReportContent(HOSTILE, summary, [panel], [{HOSTILE: HOSTILE}], [HOSTILE]))
    assert "<script>" not in made
    assert "\u202e" not in made
