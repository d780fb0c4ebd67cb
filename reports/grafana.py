"""Data source and dashboards of Grafana, made from the panels of our own dashboard (schemas/panels).

    python -m reports.grafana deploy/grafana

writes provisioning files (YAML) and a dashboard per page (JSON), for the data source
`grafana-clickhouse-datasource` by the native protocol. A panel's SQL is that of its named query; in the place
of values it has the data source's macros of the chosen time, and the dashboard's variables.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

from reports import panel, query
from reports.panel import Panel
from schemas import sql

DATABASE = "firstflight"
DATASOURCE = {"type": "grafana-clickhouse-datasource", "uid": "firstflight"}
_PARAMETER = re.compile(r"\{(\w+):[A-Za-z0-9]+(?:\([A-Za-z0-9]+\))?\}")
# What takes the place of a page's filters. A variable's value becomes a quoted text, with quotes doubled.
_MACROS = {
    "since": "toDate($__fromTime, 'UTC')",
    "until": "toDate($__toTime, 'UTC')",
    "top": "toUInt32(${top})",
}
_FILTERS = (*_MACROS, "vantage", "cdn", "step", "domain")
_UNITS = {"share": "percentunit", "us": "µs", "bps": "bps", "probes": "short", "times": "short"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 9
# Values of the variables come from the newest ninety days, whatever the dashboard shows.
_OFFERED = {
    name: f"SELECT arrayJoin({{first}}arraySort(groupUniqArray({name}))) AS value "
    f"FROM {DATABASE}.probe_day WHERE day > today() - 90 AND {name} != ''"
    for name in ("vantage", "cdn")
}
_LABELS = {"vantage": "vantage point", "cdn": "CDN", "step": "period", "domain": "name", "top": "first names"}


def statement(one: Panel) -> str:
    """Return a panel's SQL as Grafana keeps it: with macros and variables."""
    asked = query.load(one.query)
    texts: dict[str, str] = {}
    for parameter in asked.parameters:
        if parameter.name in one.parameters:
            texts[parameter.name] = parameter.literal(one.parameters[parameter.name])
        elif parameter.name in _MACROS:
            texts[parameter.name] = _MACROS[parameter.name]
        elif parameter.name in _FILTERS:
            texts[parameter.name] = f"${{{parameter.name}:sqlstring}}"
        else:
            texts[parameter.name] = parameter.literal(parameter.default or "")
    rendered = sql.query_text(asked.text, sql.Dialect(DATABASE))
    text = _PARAMETER.sub(lambda found: texts[found[1]], rendered).strip()
    if one.chart == "table":
        return text
    columns = [f"assumeNotNull(parseDateTimeBestEffort(toString({one.x}), 'UTC')) AS time"]
    columns += [f"toString({one.series}) AS series"] if one.series else []
    columns += [*one.y, one.counts]
    return f"SELECT {', '.join(columns)}\nFROM (\n{text}\n)\nWHERE {one.x} IS NOT NULL\nORDER BY time"


def dashboard(page: str) -> dict[str, Any]:
    """Return the dashboard of one page, as Grafana provisions it."""
    panels = panel.of_page(page)
    used = {parameter.name for one in panels for parameter in query.load(one.query).parameters}
    used -= {"since", "until"}
    return {
        "uid": f"firstflight-{page}",
        "title": f"firstflight: {page}",
        "tags": ["firstflight"],
        "schemaVersion": 39,
        "version": 1,
        "timezone": "utc",
        "editable": False,
        "time": {"from": "now-7d" if page == "watch" else "now-1y", "to": "now"},
        "refresh": "5m",
        "templating": {"list": [_variable(name, page) for name in _FILTERS if name in used]},
        "panels": [_panel(number, one) for number, one in enumerate(panels)],
    }


def _panel(number: int, one: Panel) -> dict[str, Any]:
    is_table = one.chart == "table"
    shown = {} if is_table else {"unit": _UNITS[one.unit], "custom": {"axisLabel": one.axes["y"]}}
    return {
        "id": number + 1,
        "type": "table" if is_table else "timeseries",
        "title": one.title,
        "description": f"{one.meaning.strip()} (query {one.query}, docs/queries.md)",
        "datasource": DATASOURCE,
        "gridPos": {
            "h": _HEIGHT,
            "w": _WIDTH,
            "x": number % _COLUMNS * _WIDTH,
            "y": number // _COLUMNS * _HEIGHT,
        },
        "fieldConfig": {
            "defaults": shown,
            "overrides": _overrides(one),
        },
        "targets": [
            {
                "refId": "A",
                "datasource": DATASOURCE,
                "editorType": "sql",
                "queryType": "table" if is_table else "timeseries",
                "format": 1 if is_table else 0,
                "rawSql": statement(one),
            }
        ],
    }


def _overrides(one: Panel) -> list[dict[str, Any]]:
    """Return names and units of columns. The counts of a chart are in its tooltips, not among its lines."""
    found: list[dict[str, Any]] = []
    for column in query.load(one.query).columns if one.chart == "table" else one.y:
        properties = [{"id": "displayName", "value": one.label(column)}] if not one.series else []
        if one.chart == "table" and one.unit_of(column):
            properties.append({"id": "unit", "value": _UNITS[one.unit_of(column)]})
        if properties:
            found.append({"matcher": {"id": "byName", "options": column}, "properties": properties})
    if one.chart != "table":
        hidden = {"legend": True, "tooltip": False, "viz": True}
        found.append(
            {
                "matcher": {"id": "byRegexp", "options": f"/^{one.counts}/"},
                "properties": [
                    {"id": "custom.hideFrom", "value": hidden},
                    {"id": "unit", "value": "short"},
                ],
            }
        )
    return found


def _variable(name: str, page: str) -> dict[str, Any]:
    common = {"name": name, "label": _LABELS[name]}
    if name in _OFFERED:
        # An empty value, which comes first, is all of them; the page of one needs one.
        offered = _OFFERED[name].format(first="" if name == page else "[''] || ")
        return common | {
            "type": "query",
            "datasource": DATASOURCE,
            "query": {"rawSql": offered, "queryType": "table", "format": 1, "editorType": "sql"},
            "refresh": 2,
            "multi": False,
            "includeAll": False,
            "sort": 0,
        }
    if name == "step":
        steps = ("hour", "day") if page == "watch" else ("day", "week", "month")
        chosen = steps[0]
        options = [{"text": one, "value": one, "selected": one == chosen} for one in steps]
        current = {"text": chosen, "value": chosen}
        return common | {"type": "custom", "query": ",".join(steps), "options": options, "current": current}
    text = "0" if name == "top" else ""
    return common | {"type": "textbox", "query": text, "current": {"text": text, "value": text}}


def datasource() -> dict[str, Any]:
    """Return the provisioning file of the data source; its address and password come from the environment."""
    return {
        "apiVersion": 1,
        "datasources": [
            {
                "name": "firstflight",
                "uid": DATASOURCE["uid"],
                "type": DATASOURCE["type"],
                "isDefault": True,
                "editable": False,
                "jsonData": {
                    "host": "$FIRSTFLIGHT_GRAFANA_HOST",
                    "port": "$FIRSTFLIGHT_GRAFANA_PORT",
                    "protocol": "native",
                    "secure": True,
                    "username": "$FIRSTFLIGHT_GRAFANA_USER",
                    "defaultDatabase": DATABASE,
                    "validateSql": False,
                },
                "secureJsonData": {"password": "$FIRSTFLIGHT_GRAFANA_PASSWORD"},
            }
        ],
    }


def provider() -> dict[str, Any]:
    """Return the provisioning file that names the folder of the dashboards."""
    return {
        "apiVersion": 1,
        "providers": [
            {
                "name": "firstflight",
                "folder": "firstflight",
                "type": "file",
                "disableDeletion": True,
                "allowUiUpdates": False,
                "options": {"path": "/etc/grafana/firstflight"},
            }
        ],
    }


def files() -> dict[str, str]:
    """Return all files: path below deploy/grafana -> content."""
    head = "# Made by `python -m reports.grafana deploy/grafana`; change schemas/panels instead.\n"
    found = {
        "provisioning/datasources/firstflight.yaml": head + yaml.safe_dump(datasource(), sort_keys=False),
        "provisioning/dashboards/firstflight.yaml": head + yaml.safe_dump(provider(), sort_keys=False),
    }
    for page in panel.PAGES:
        text = json.dumps(dashboard(page), indent=1, ensure_ascii=False) + "\n"
        found[f"dashboards/{page}.json"] = text
    return found


if __name__ == "__main__":
    for name, content in files().items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
