"""Files for Grafana: the generator's output, and every statement in them through clickhouse-go.

Grafana itself does not run. Its client library queries the served store, with macros and variables expanded
as documented by the data source and by Grafana.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from firstflight.system import binaries
from reports import grafana, panel, query
from store import open_store
from tests.dashboard.everything import HOSTILE, everything
from tests.queries.conftest import campaign, template
from tests.store.served.serving import serving

__all__ = ["campaign", "everything", "template"]

TREE = Path(__file__).parents[2]
SINCE, UNTIL = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 30, 12, tzinfo=UTC)
BREAKS = "\\' OR 1=1 OR ''='"
"""Ends a text of ClickHouse, also after quotes are doubled."""
CHOSEN = {"vantage": "", "cdn": "", "step": "day", "domain": "a.example", "top": "0"}


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return SQL as the data source sends it: macros of the time, `percentencode` of Grafana's variables."""
    text = text.replace("$__fromTime", f"toDateTime({int(SINCE.timestamp())})")
    text = text.replace("$__toTime", f"toDateTime({int(UNTIL.timestamp())})")

    def value(found: re.Match[str]) -> str:
        return quote(values[found[1]], safe="")

    text = re.sub(r"\$\{(\w+):percentencode\}", value, text)
    assert "$" not in text
    return text


def statements() -> dict[str, str]:
    """Return every statement of the dashboards: `PAGE, TITLE` or `PAGE, VARIABLE` -> SQL."""
    found: dict[str, str] = {}
    for page in sorted(panel.PAGES):
        made = grafana.dashboard(page)
        for shown_panel in made["panels"]:
            (target,) = shown_panel["targets"]
            found[f"{page}, {shown_panel['title']}"] = target["rawSql"]
        for variable in made["templating"]["list"]:
            if variable["type"] == "query":
                found[f"{page}, {variable['name']}"] = variable["query"]["rawSql"]
    return found


def ask(url: Any, texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Query the served store through clickhouse-go; return name to answer."""
    lines = "".join(json.dumps({"name": name, "sql": text}) + "\n" for name, text in texts.items())
    argv = [
        str(binaries.find("firstflight-grafana-check")),
        f"{url.host}:{url.port}",
        "firstflight",
        "default",
    ]
    environment = os.environ | {"FIRSTFLIGHT_PASSWORD": url.password}
    done = subprocess.run(argv, input=lines, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {answer["name"]: answer for answer in answers}


def test_the_command_writes_all_files(tmp_path: Path) -> None:
    """Run the command as `make grafana` does; a folder without write permission gives a one-line error."""

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "reports.grafana", str(folder)]
        return subprocess.run(argv, cwd=TREE, capture_output=True, text=True, check=False)

    done = run(tmp_path / "made")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    made = {
        str(path.relative_to(tmp_path / "made")): path.read_text()
        for path in (tmp_path / "made").rglob("*")
        if path.is_file()
    }
    assert made == grafana.files()
    assert {f"dashboards/{page}.json" for page in panel.PAGES} < set(made)
    for name, text in made.items():
        assert json.loads(text) if name.endswith(".json") else yaml.safe_load(text)
    (tmp_path / "file").write_text("")
    done = run(tmp_path / "file")
    assert done.returncode == 3 and done.stderr.count("\n") == 1 and "reports.grafana: " in done.stderr


def test_every_panel_is_on_its_pages() -> None:
    shown = set(statements())
    for described in map(panel.load, panel.names()):
        assert {f"{page}, {described.title}" for page in described.pages} <= shown
    for page in panel.PAGES:
        made = grafana.dashboard(page)
        used = set(re.findall(r"\$\{(\w+)", " ".join(t["targets"][0]["rawSql"] for t in made["panels"])))
        assert used == {variable["name"] for variable in made["templating"]["list"]}
    (source,) = yaml.safe_load(grafana.files()["provisioning/datasources/firstflight.yaml"])["datasources"]
    assert source["jsonData"]["protocol"] == "native"
    assert "password" not in source["jsonData"] and source["secureJsonData"]["password"].startswith("$")


@pytest.fixture(scope="module")
def answered(everything: str) -> dict[str, dict[str, Any]]:
    """Return the served store's answers to all statements, also for a CDN with a hostile name."""
    texts = {}
    for name, text in statements().items():
        step = "hour" if name.startswith("watch,") else "day"
        texts[name] = expanded(text, CHOSEN | {"step": step})
        if "${cdn" in text and name.startswith(("overview,", "watch,")):
            texts[f"hostile: {name}"] = expanded(text, CHOSEN | {"step": step, "cdn": HOSTILE + BREAKS})
    with serving(Path(everything.removeprefix("chdb:")), "--read-only") as served:
        return ask(served, texts)


@pytest.fixture(scope="module")
def wanted(everything: str, answered: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:  # noqa: ARG001
    """Return the answers of the named queries in the store itself, after serving, by panel and page."""
    found = {}
    with open_store(everything) as store:
        for described in map(panel.load, panel.names()):
            for page in described.pages:
                chosen = CHOSEN | {"since": str(SINCE.date()), "until": str(UNTIL.date())}
                chosen["step"] = "hour" if page == "watch" else "day"
                found[described.name, page] = query.rows(store, described.query, described.given(chosen))
    return found


def test_all_statements_are_answered(answered: dict[str, dict[str, Any]]) -> None:
    assert {name: answer["error"] for name, answer in answered.items() if "error" in answer} == {}
    assert [
        name for name, answer in answered.items() if name.startswith("hostile") and answer.get("rows")
    ] == []
    assert ["a.example"] not in answered["overview, vantage"]["rows"]
    assert answered["overview, vantage"]["rows"][0] == [""] and len(answered["overview, vantage"]["rows"]) > 1


@pytest.mark.parametrize("name", panel.names())
def test_panels_have_the_values_of_their_queries(
    answered: dict[str, dict[str, Any]], wanted: dict[tuple[str, str], list[dict[str, Any]]], name: str
) -> None:
    described = panel.load(name)
    for page in described.pages:
        answer = answered[f"{page}, {described.title}"]
        columns = [column for column, _ in answer["columns"]]
        rows = [dict(zip(columns, row, strict=True)) for row in answer.get("rows", [])]
        expected_rows = wanted[name, page]
        assert len(rows) == len(expected_rows)
        is_table = described.chart in panel.TABLES
        numbers = list(query.load(described.query).columns) if is_table else [*described.y, described.counts]

        def of(found: list[dict[str, Any]], columns: list[str]) -> list[list[Any]]:
            kept = ([row[c] for c in columns if isinstance(row[c], int | float | None)] for row in found)
            return sorted(kept, key=str)

        shown = [c for c in numbers if c]
        assert of(rows, shown) == of(expected_rows, shown)
        if not is_table:
            kinds = dict(answer["columns"])
            assert kinds["time"].startswith("DateTime"), kinds
            assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
