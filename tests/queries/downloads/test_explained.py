"""Messages from a named query: the run that it chose, the reason for an empty answer, and mistyped values."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.shared import table
from firstflight.errors import UsageError
from reports import chosen_run, known, no_rows, query
from store import open_store
from store.base import FormattedAnswer
from store.load import loader
from tests.queries.conftest import DAY_1, SECOND
from tests.store.rows import download, handshake, probe, scan_answer, write

pytestmark = pytest.mark.usefixtures("tables")

OLD, NEW, WATCH = (f"2026112{day}T060000Z-{day:06}" for day in (1, 2, 3))
DAY_NS = 86_400 * SECOND


@pytest.fixture
def filled(tables: Path, tmp_path: Path) -> Path:
    """A store with an old campaign with handshakes, a new campaign with only probes, and a newer watch."""
    files: list[tuple[str, str, list[dict[str, Any]]]] = [
        (f"{OLD}/hamburg/1/probe", "quic_probe", [probe(run=OLD, sent_at=DAY_1)]),
        (f"{OLD}/hamburg/1/handshake", "quic_handshake", [handshake(run=OLD, sent_at=DAY_1)]),
        (f"{NEW}/watch/1/probe", "quic_probe", [probe(run=NEW, sent_at=DAY_1 + DAY_NS, vantage="watch")]),
        (f"{WATCH}/hamburg/1/watch", "quic_probe", [probe(run=WATCH, sent_at=DAY_1 + 2 * DAY_NS, slot=1)]),
    ]
    paths = []
    for folder, kind, rows in files:
        (tmp_path / folder).mkdir(parents=True)
        run = tmp_path / folder.partition("/")[0]
        (run / "manifest.json").write_text(f'{{"id": "{run.name}"}}')
        paths.append(write(tmp_path / folder / f"{kind}.parquet", rows, kind))
    results = loader.load_files(paths)
    assert all(isinstance(result, loader.Loaded) for result in results), results
    return tables


CHOSEN: tuple[tuple[str, str | None], ...] = (
    ("iack_share", f"run {NEW}, the newest of 2 runs with probes"),
    ("list_share", f"run {NEW}, the newest of 2 runs with probes"),
    ("handshake_stages", f"run {OLD}, the only run with handshakes"),
    ("cdn_methods", f"run {OLD}, the only run with handshakes"),
    ("iack_verdict", f"run {OLD}, the only run with handshakes"),
    ("calibration", f"run {OLD}, the only run with handshakes"),
    ("anrw_table1", None),
)


@pytest.mark.usefixtures("filled")
def test_newest_is_the_newest_campaign_with_rows_of_the_kind() -> None:
    with open_store() as store:
        for name, sentence in CHOSEN:
            named_query = query.load(name)
            choice = chosen_run.newest(store, named_query.newest_of({"run": "newest"}))
            assert (choice and choice.sentence) == sentence, name
            assert named_query.newest_of({"run": OLD}) == ()
            if choice:
                found = query.rows(store, name, {"run": "newest"})
                assert found == query.rows(store, name, {"run": choice.run}), name


EMPTY: tuple[tuple[str, dict[str, str], str], ...] = (
    ("anrw_table1", {}, r"no run in the store in \S+ has downloads"),
    ("handshake_stages", {"run": NEW}, rf"run {NEW} has no handshakes in the store; other runs have"),
    ("name_history", {}, "the query name_history is about one name; add --param domain=NAME"),
    ("name_history", {"domain": "x.example"}, "has probes, but none that the query counts with domain=x"),
    ("iack_share", {"cdn": "Meta", "until": "2026-11-30"}, "counts with cdn=Meta, until=2026-11-30"),
    ("testbed_gain", {}, "has rows of testbed_trial"),
)


@pytest.mark.usefixtures("filled")
def test_an_answer_without_rows_has_a_reason() -> None:
    with open_store() as store:
        for name, given, reason in EMPTY:
            known.check(store, given)
            assert query.rows(store, name, given) == []
            assert re.search(reason, no_rows.reason(store, query.load(name), given))
        for output_format in (
            *("TSV", "CSVWithNames", "TSVRawWithNames", "JSONEachRow", "JSONCompact", "PrettyCompact"),
            table.FORMAT,
        ):
            assert no_rows.is_empty(query.asked_of(store, "anrw_table1", {}, output_format)), output_format


def test_an_answer_with_rows_is_not_empty() -> None:
    with open_store() as store:
        for output_format in (
            "TSV",
            "TSVWithNames",
            "CSVWithNames",
            "JSONEachRow",
            "JSONCompact",
            "Markdown",
            "RowBinaryWithNames",
            table.FORMAT,
        ):
            assert not no_rows.is_empty(store.formatted("SELECT 1 AS one", output_format)), output_format
    assert not no_rows.is_empty(FormattedAnswer(b"PAR1", "Parquet"))


MISTYPED: tuple[tuple[dict[str, str], str], ...] = (
    ({"cdn": "Cloudfare"}, "has no CDN 'Cloudfare'; did you mean Cloudflare?"),
    ({"run": OLD[:-1]}, f"has no run '{OLD[:-1]}'; did you mean {OLD}"),
    ({"vantage": "Hamburg"}, "has no vantage point 'Hamburg'; did you mean hamburg?"),
    ({"vantage": "zzz"}, "has no vantage point 'zzz'; it has hamburg, watch"),
)


@pytest.mark.usefixtures("filled")
def test_a_value_that_the_store_does_not_have_is_wrong_use() -> None:
    with open_store() as store:
        for given, message in MISTYPED:
            with pytest.raises(UsageError, match=re.escape(message)):
                known.check(store, given)


@pytest.mark.usefixtures("filled")
def test_values_of_every_kind_of_row_are_known(tmp_path: Path) -> None:
    alone = "20261125T060000Z-000005"
    rows = [download(run=alone, vantage="sao_paulo", cdn="Own CDN")]
    swept = [scan_answer(run=alone, vantage="sao_paulo", cdn="Swept CDN")]
    downloads = write(tmp_path / "download.parquet", rows, "download")
    loader.load_files([downloads, write(tmp_path / "scan_answer.parquet", swept, "scan_answer")])
    with open_store() as store:
        known.check(store, {"run": alone, "vantage": "sao_paulo", "cdn": "Own CDN"})
        known.check(store, {"cdn": "Swept CDN"})
        known.check(store, {"run": "newest", "cdn": "Others"})


@pytest.mark.usefixtures("filled")
def test_the_command_explains_on_standard_error() -> None:
    argv = [sys.executable, "-m", "cli", "query", "handshake_stages", "--param"]
    done = subprocess.run([*argv, "run=newest"], capture_output=True, text=True, check=True)
    assert (done.stdout.count("\n"), done.stderr) == (1, f"run {OLD}, the only run with handshakes\n")
    done = subprocess.run([*argv, "cdn=Meta"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr[:8]) == ("", "no rows:")
    done = subprocess.run([*argv, "cdn=Cloudfare"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")


def test_every_query_is_in_a_group_and_a_search_finds_columns() -> None:
    assert (
        sorted(described.name for group in query.grouped().values() for described in group) == query.names()
    )
    found = query.grouped("CHAIN handshakes bytes_max")
    assert [described.name for group in found.values() for described in group] == ["handshake_chain_sizes"]
    assert query.grouped("no such words anywhere") == {}


def on_a_terminal(*arguments: str, keys: bytes = b"") -> str:
    """Return the output of `firstflight ARGUMENTS` on a terminal of 60 columns where a user types `keys`."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "60", "TERM": "dumb"}
    argv = [sys.executable, "-m", "cli", *arguments]
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        os.write(ours, keys)
        shown = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the last process on the terminal has exited
                break
            shown += piece
        assert process.wait() == 0, shown
    os.close(ours)
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.usefixtures("filled")
def test_a_terminal_gets_a_table_that_fits() -> None:
    shown = on_a_terminal("query", "handshake_stages")
    assert "─" in shown and "columns without values" not in shown
    assert max(map(len, shown.splitlines())) <= 60


@pytest.mark.usefixtures("filled")
def test_the_prompt_runs_statements_and_keeps_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    keys = b"SELECT 40\n + 2 AS answer;\nSELECT nonsense;\nSELECT max(run) AS newest FROM table1;\nexit\n"
    shown = on_a_terminal("sql", keys=keys)
    assert re.search(r"answer\n─+\n +42\n", shown), shown
    assert "Unknown expression identifier 'nonsense'" in shown or "nonsense" in shown.partition("refused")[2]
    assert re.search(rf"newest *\n─+\n{NEW}\n", shown), shown
    history = tmp_path / "state" / "firstflight" / "sql_history"
    assert history.read_text().splitlines()[0] == "SELECT 40  + 2 AS answer"
    assert history.stat().st_mode & 0o077 == 0
