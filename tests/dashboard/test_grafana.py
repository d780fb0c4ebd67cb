"""The files for Grafana: what the generator makes, and every statement in them through clickhouse-go.

Grafana itself is not here: its library asks the served store, with macros and variables expanded as the data
source's documentation and Grafana's say.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from firstflight.system import binaries
from reports import grafana, panel, query
from store import open_store
from tests.dashboard.everything import HOSTILE, everything
from tests.queries.conftest import campaign, template
from tests.store.serving import serving

__all__ = ["campaign", "everything", "template"]

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
SINCE, UNTIL = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 11, 30, 12, tzinfo=UTC)
CHOSEN = {"vantage": "", "cdn": "", "step": "day", "domain": "a.example", "top": "0"}


def expanded(text: str, values: Mapping[str, str]) -> str:
    """Return SQL as the data source sends it: macros of the time, and Grafana's `sqlstring` of variables."""
    text = text.replace("$__fromTime", f"toDateTime({int(SINCE.timestamp())})")
    text = text.replace("$__toTime", f"toDateTime({int(UNTIL.timestamp())})")

    def value(found: re.Match[str]) -> str:
        plain = values[found[1]]
        return plain if found[2] is None else "'" + plain.replace("'", "''") + "'"

    text = re.sub(r"\$\{(\w+)(:sqlstring)?\}", value, text)
    assert "$" not in text
    return text


def statements() -> dict[str, str]:
    """Return every statement of the committed dashboards: `PAGE, TITLE` or `PAGE, VARIABLE` -> SQL."""
    found: dict[str, str] = {}
    for path in sorted((FOLDER / "dashboards").glob("*.json")):
        made = json.loads(path.read_text())
        for one in made["panels"]:
            (target,) = one["targets"]
            found[f"{path.stem}, {one['title']}"] = target["rawSql"]
        for one in made["templating"]["list"]:
            if one["type"] == "query":
                found[f"{path.stem}, {one['name']}"] = one["query"]["rawSql"]
    return found


def ask(url: Any, texts: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Ask the served store through clickhouse-go; return its answers by name."""
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
    return {one["name"]: one for one in answers}


def test_committed_files_are_what_the_generator_makes() -> None:
    there = {
        str(path.relative_to(FOLDER)): path.read_text()
        for part in ("dashboards", "provisioning")
        for path in (FOLDER / part).rglob("*")
        if path.is_file()
    }
    assert there == grafana.files()


def test_every_panel_is_on_its_pages() -> None:
    shown = set(statements())
    for one in map(panel.load, panel.names()):
        assert {f"{page}, {one.title}" for page in one.pages} <= shown
    for page in panel.PAGES:
        made = grafana.dashboard(page)
        used = set(re.findall(r"\$\{(\w+)", " ".join(t["targets"][0]["rawSql"] for t in made["panels"])))
        assert used == {one["name"] for one in made["templating"]["list"]}
    (source,) = yaml.safe_load(grafana.files()["provisioning/datasources/firstflight.yaml"])["datasources"]
    assert source["jsonData"]["protocol"] == "native"
    assert "password" not in source["jsonData"] and source["secureJsonData"]["password"].startswith("$")


@pytest.fixture(scope="module")
def answered(everything: str) -> dict[str, dict[str, Any]]:
    """What the served store answers to every statement, and to those of a CDN with a hostile name."""
    texts = {}
    for name, text in statements().items():
        step = "hour" if name.startswith("watch,") else "day"
        texts[name] = expanded(text, CHOSEN | {"step": step})
        if "${cdn" in text and name.startswith(("overview,", "watch,")):
            texts[f"hostile: {name}"] = expanded(text, CHOSEN | {"step": step, "cdn": HOSTILE + "' OR 1=1"})
    with serving(Path(everything.removeprefix("chdb:")), "--read-only") as served:
        return ask(served, texts)


@pytest.fixture(scope="module")
def wanted(everything: str, answered: dict[str, Any]) -> dict[tuple[str, str], list[dict[str, Any]]]:  # noqa: ARG001
    """What the named queries answer in the store itself, by panel and page; it is no longer served then."""
    found = {}
    with open_store(everything) as store:
        for one in map(panel.load, panel.names()):
            for page in one.pages:
                chosen = CHOSEN | {"since": str(SINCE.date()), "until": str(UNTIL.date())}
                chosen["step"] = "hour" if page == "watch" else "day"
                found[one.name, page] = query.rows(store, one.query, one.given(chosen))
    return found


def test_all_statements_are_answered(answered: dict[str, dict[str, Any]]) -> None:
    assert {name: one["error"] for name, one in answered.items() if "error" in one} == {}
    assert [name for name, one in answered.items() if name.startswith("hostile") and one.get("rows")] == []
    assert ["a.example"] not in answered["overview, vantage"]["rows"]
    assert answered["overview, vantage"]["rows"][0] == [""] and len(answered["overview, vantage"]["rows"]) > 1


@pytest.mark.parametrize("name", panel.names())
def test_panels_have_the_values_of_their_queries(
    answered: dict[str, dict[str, Any]], wanted: dict[tuple[str, str], list[dict[str, Any]]], name: str
) -> None:
    one = panel.load(name)
    for page in one.pages:
        answer = answered[f"{page}, {one.title}"]
        columns = [column for column, _ in answer["columns"]]
        rows = [dict(zip(columns, row, strict=True)) for row in answer.get("rows", [])]
        own = wanted[name, page]
        assert len(rows) == len(own)
        numbers = [*one.y, one.counts] if one.chart != "table" else list(query.load(one.query).columns)

        def of(found: list[dict[str, Any]], columns: list[str]) -> list[list[Any]]:
            kept = ([row[c] for c in columns if isinstance(row[c], int | float | None)] for row in found)
            return sorted(kept, key=str)

        shown = [c for c in numbers if c]
        assert of(rows, shown) == of(own, shown)
        if one.chart != "table":
            kinds = dict(answer["columns"])
            assert kinds["time"].startswith("DateTime"), kinds
            assert [row["time"] for row in rows] == sorted(row["time"] for row in rows)
