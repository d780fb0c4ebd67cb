"""Data source and dashboards of Grafana, made from the panels of our own dashboard (schemas/panels).

    python -m reports.grafana var/grafana      # `make grafana`

writes provisioning files (YAML) and a dashboard per page (JSON), for the data source
`grafana-clickhouse-datasource` over the native protocol. A panel has the SQL of its named query. Macros of
the data source for the chosen time, and variables of the dashboard, replace the values.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import yaml

from reports import generated, panel, query
from reports.panel import Panel
from schemas import sql

DATABASE = "firstflight"
DATASOURCE = {"type": "grafana-clickhouse-datasource", "uid": "firstflight"}
_PARAMETER = re.compile(r"\{(\w+):[A-Za-z0-9]+(?:\([A-Za-z0-9]+\))?\}")


def _chosen(variable: str) -> str:
    """Return the SQL for a variable's value.

    Grafana's `sqlstring` doubles quotes and leaves backslashes, with which a value in the dashboard's address
    would end the text. `percentencode` leaves only letters, digits and `-._~`.
    """
    return f"decodeURLComponent('${{{variable}:percentencode}}')"


# Replacements for a page's filters.
_MACROS = {
    "since": "toDate($__fromTime, 'UTC')",
    "until": "toDate($__toTime, 'UTC')",
    "top": f"toUInt32({_chosen('top')})",
}
_FILTERS = (*_MACROS, "vantage", "cdn", "step", "domain")
_UNITS = {"share": "percentunit", "us": "µs", "bps": "bps", "probes": "short", "times": "short"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 9
# The values of the variables are from the last ninety days, for any time range of the dashboard.
_OFFERED = {
    name: f"SELECT arrayJoin({{first}}arraySort(groupUniqArray({name}))) AS value "
    f"FROM {DATABASE}.probe_day WHERE day > today() - 90 AND {name} != ''"
    for name in ("vantage", "cdn")
}
_LABELS = {"vantage": "vantage point", "cdn": "CDN", "step": "period", "domain": "name", "top": "first names"}


def statement(page_panel: Panel) -> str:
    """Return a panel's SQL for Grafana, with macros and variables."""
    named_query = query.load(page_panel.query)
    texts: dict[str, str] = {}
    for parameter in named_query.parameters:
        if parameter.name in page_panel.parameters:
            texts[parameter.name] = parameter.literal(page_panel.parameters[parameter.name])
        elif parameter.name in _MACROS:
            texts[parameter.name] = _MACROS[parameter.name]
        elif parameter.name in _FILTERS:
            texts[parameter.name] = _chosen(parameter.name)
        else:
            texts[parameter.name] = parameter.literal(parameter.default or "")
    rendered = sql.query_text(named_query.text, sql.Dialect(DATABASE))
    text = _PARAMETER.sub(lambda match: texts[match[1]], rendered).strip()
    if page_panel.chart in panel.TABLES:
        return text
    columns = [f"assumeNotNull(parseDateTimeBestEffort(toString({page_panel.x}), 'UTC')) AS time"]
    columns += [f"toString({page_panel.series}) AS series"] if page_panel.series else []
    columns += [*page_panel.y, page_panel.counts]
    return f"SELECT {', '.join(columns)}\nFROM (\n{text}\n)\nWHERE {page_panel.x} IS NOT NULL\nORDER BY time"


def dashboard(page: str) -> dict[str, Any]:
    """Return a page's dashboard in Grafana's provisioning format."""
    panels = panel.of_page(page)
    used = {parameter.name for page_panel in panels for parameter in query.load(page_panel.query).parameters}
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
        "panels": [_panel(number, page_panel) for number, page_panel in enumerate(panels)],
    }


def _panel(number: int, page_panel: Panel) -> dict[str, Any]:
    is_table = page_panel.chart in panel.TABLES
    shown = (
        {} if is_table else {"unit": _UNITS[page_panel.unit], "custom": {"axisLabel": page_panel.axes["y"]}}
    )
    return {
        "id": number + 1,
        "type": "table" if is_table else "timeseries",
        "title": page_panel.title,
        "description": f"{page_panel.meaning.strip()} (query {page_panel.query}, docs/queries.md)",
        "datasource": DATASOURCE,
        "gridPos": {
            "h": _HEIGHT,
            "w": _WIDTH,
            "x": number % _COLUMNS * _WIDTH,
            "y": number // _COLUMNS * _HEIGHT,
        },
        "fieldConfig": {
            "defaults": shown,
            "overrides": _overrides(page_panel),
        },
        "targets": [
            {
                "refId": "A",
                "datasource": DATASOURCE,
                "editorType": "sql",
                "queryType": "table" if is_table else "timeseries",
                "format": 1 if is_table else 0,
                "rawSql": statement(page_panel),
            }
        ],
    }


def _overrides(page_panel: Panel) -> list[dict[str, Any]]:
    """Return names and units of columns. A chart's counts are in its tooltips, not among its lines."""
    overrides: list[dict[str, Any]] = []
    for column in query.load(page_panel.query).columns if page_panel.chart in panel.TABLES else page_panel.y:
        properties = (
            [{"id": "displayName", "value": page_panel.label(column)}] if not page_panel.series else []
        )
        if page_panel.chart in panel.TABLES and page_panel.unit_of(column):
            properties.append({"id": "unit", "value": _UNITS[page_panel.unit_of(column)]})
        if properties:
            overrides.append({"matcher": {"id": "byName", "options": column}, "properties": properties})
    if page_panel.chart not in panel.TABLES:
        hidden = {"legend": True, "tooltip": False, "viz": True}
        overrides.append(
            {
                "matcher": {"id": "byRegexp", "options": f"/^{page_panel.counts}/"},
                "properties": [
                    {"id": "custom.hideFrom", "value": hidden},
                    {"id": "unit", "value": "short"},
                ],
            }
        )
    return overrides


def _variable(name: str, page: str) -> dict[str, Any]:
    common = {"name": name, "label": _LABELS[name]}
    if name in _OFFERED:
        # The empty value comes first and selects all. The page for a single CDN or vantage point needs a
        # value.
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
        options = [{"text": choice, "value": choice, "selected": choice == chosen} for choice in steps]
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
    """Return all files: path below the folder -> content."""
    head = "# Made by `python -m reports.grafana`; change schemas/panels instead.\n"
    contents = {
        "provisioning/datasources/firstflight.yaml": head + yaml.safe_dump(datasource(), sort_keys=False),
        "provisioning/dashboards/firstflight.yaml": head + yaml.safe_dump(provider(), sort_keys=False),
    }
    for page in panel.PAGES:
        text = json.dumps(dashboard(page), indent=1, ensure_ascii=False) + "\n"
        contents[f"dashboards/{page}.json"] = text
    return contents


if __name__ == "__main__":
    sys.exit(generated.main("reports.grafana", files))
