"""The command `firstflight query`, and stores that are older than its queries."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from firstflight.errors import UsageError
from reports import known, query
from store import open_store
from tests.queries.conftest import RUN_1
from tests.queries.earlier import store_with


def test_the_command_lists_describes_shows_and_runs_queries(
    campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", campaign)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cli", "query", *arguments], capture_output=True, text=True, check=False
        )

    listed = run()
    assert sorted(line.split()[0] for line in listed.stdout.splitlines() if line[:2] == "  ") == query.names()
    assert "  since " in run("changed_behaviour", "--about").stdout
    answer = run("first_iack", "--param", "cdn=Google", "--format", "JSONEachRow")
    assert [json.loads(line)["run"] for line in answer.stdout.splitlines()] == [RUN_1]
    # --sql prints the executed query, which can be run by hand.
    shown = run("first_iack", "--param", "cdn=Google", "--sql").stdout
    by_hand = subprocess.run(
        [sys.executable, "-m", "cli", "sql", "-", "--format", "JSONEachRow"],
        input=shown,
        capture_output=True,
        text=True,
        check=False,
    )
    assert by_hand.stdout == answer.stdout
    for arguments, says in (
        (["nonsense"], "there is no query 'nonsense'; `firstflight query` lists them"),
        (["first_iack", "--param", "cdn"], "--param cdn: write it as KEY=VALUE"),
        (["first_iack", "--param", "cdn=a", "--param", "cdn=b"], "--param cdn is given twice"),
        (["first_iack", "--param", "what=a"], "the query first_iack has no parameter 'what'"),
        (["changed_behaviour"], "the query changed_behaviour needs --param since=...: The date"),
        (["--param", "cdn=a"], "--param goes with the NAME of a query"),
        (["first_iack", "--format", "Nonsense"], "Nonsense"),
    ):
        done = run(*arguments)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert says in done.stderr


def test_an_older_store_gets_advice(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not place.exists()
    with store_with(4, monkeypatch):
        pass
    with pytest.raises(UsageError, match=r"lacks tables or views .* `firstflight db migrate`"):
        query.formatted("iack_share", {}, "JSONEachRow")
    with open_store() as store, pytest.raises(UsageError, match=r"lacks tables or views"):
        known.check(store, {"cdn": "Own CDN"})
    with pytest.raises(UsageError, match="is empty"):
        query.formatted("iack_share", {}, "JSONEachRow", f"chdb:{tmp_path / 'none'}")
