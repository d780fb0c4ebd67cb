"""Assets of Superset: the store as database, its tables as datasets, and a dashboard.

    python -m reports.superset FOLDER

writes them in the format in which Superset exports and imports (version 1.0.0), from schemas/superset.yaml,
the record kinds and the views, with the comments of their columns. deploy/superset/load.py imports the files.
They do not contain the address of the store.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import yaml

from reports import generated
from schemas import records, sql, yaml_text

VERSION = "1.0.0"
NAME = "firstflight"
# The host is replaced at each connection (deploy/superset/superset_config.py). The setting is necessary
# because Superset gives the start of a period the name of the rounded column, and WHERE would compare the
# rounded value.
STORE = f"clickhouse+native://store.invalid/{NAME}?prefer_column_name_to_alias=1&session_timezone=UTC"
# View -> its column of time.
VIEWS = {"probes_by_day": "day", "watch_hourly": "hour"}
_STORE_TYPES = {"string": "String", "bool": "Bool", "date": "Date"}
_EVERYTHING = "No filter"


@dataclass(frozen=True)
class Metric:
    """An aggregate. Its name differs from all columns, because ORDER BY would otherwise use the column."""

    name: str
    expression: str
    meaning: str
    format: str = ",d"


@dataclass(frozen=True)
class Chart:
    """A chart of the dashboard; `x` is a time. `where`: (column, operator, value)."""

    title: str
    kind: str
    dataset: str
    metrics: list[str]
    meaning: str
    x: str = ""
    by: list[str] = field(default_factory=list)
    where: list[tuple[str, str, Any]] = field(default_factory=list)
    width: int = 6
    more: dict[str, Any] = field(default_factory=dict)


def _read() -> tuple[dict[str, list[Metric]], list[Chart]]:
    """Return the metrics by dataset, and the charts, of schemas/superset.yaml."""
    read = yaml_text.read((sql.HERE / "superset.yaml").read_text(encoding="utf-8"))
    metrics = {name: [Metric(**metric) for metric in entries] for name, entries in read["metrics"].items()}
    return metrics, [Chart(**chart) for chart in read["charts"]]


METRICS, CHARTS = _read()


def files() -> dict[str, str]:
    """Return all files: path below the folder -> content."""
    contents: dict[str, Any] = {
        "metadata.yaml": {"version": VERSION, "type": "assets"},
        f"databases/{NAME}.yaml": database(),
        f"dashboards/{NAME}.yaml": dashboard(),
    }
    for name in datasets():
        contents[f"datasets/{NAME}/{name}.yaml"] = dataset(name)
    for chart in CHARTS:
        contents[f"charts/{chart.title.lower().replace(' ', '_')}.yaml"] = described(chart)
    head = "# Made by `python -m reports.superset`; change schemas/superset.yaml instead.\n"
    return {
        path: head + yaml.safe_dump(content, sort_keys=False, width=110, allow_unicode=True)
        for path, content in contents.items()
    }


def datasets() -> list[str]:
    """Return the tables and views that are datasets: measurements with an instant, and VIEWS."""
    kinds = map(records.load, records.names())
    timed = [kind.name for kind in kinds if kind.stored and kind.time and kind.column(kind.time).is_instant]
    return sorted([*timed, *VIEWS])


def identity(*words: str) -> str:
    """Return an asset's UUID: the same at each rendering, so that an import replaces it."""
    return str(uuid5(NAMESPACE_URL, "/".join(["firstflight", "superset", *words])))


def database() -> dict[str, Any]:
    """Return the store as a database that is read only."""
    return {
        "database_name": NAME,
        "sqlalchemy_uri": STORE,
        "expose_in_sqllab": True,
        "allow_run_async": False,
        "allow_ctas": False,
        "allow_cvas": False,
        "allow_dml": False,
        "allow_file_upload": False,
        "extra": {"allows_virtual_table_explore": True, "metadata_params": {}, "engine_params": {}},
        "uuid": identity("database"),
        "version": VERSION,
    }


def dataset(name: str) -> dict[str, Any]:
    """Return a table or view with the comments on its columns, and its metrics."""
    columns: list[dict[str, Any]]
    if name in VIEWS:
        view = next(view for view in sql.views() if view.name == name)
        meaning, time = view.meaning, VIEWS[name]
        columns = [
            {"column_name": column, "type": _type_in_view(column), "description": comment}
            for column, comment in view.columns.items()
        ]
    else:
        kind = records.load(name)
        meaning, time = kind.meaning, kind.time or ""
        columns = [
            {"column_name": column.name, "type": store_type(column), "description": column.comment}
            for column in kind.columns
        ]
    for entry in columns:
        entry["is_dttm"] = entry["type"].startswith("Date")
    return {
        "table_name": name,
        "main_dttm_col": time,
        "description": meaning,
        "columns": columns,
        "metrics": [
            {
                "metric_name": metric.name,
                "expression": metric.expression,
                "description": metric.meaning,
                "d3format": metric.format,
            }
            for metric in METRICS.get(name, [Metric("all_rows", "count()", "Rows.")])
        ],
        "uuid": identity("dataset", name),
        "database_uuid": identity("database"),
        "version": VERSION,
    }


def store_type(column: records.Column) -> str:
    """Return the type of a column as Superset distinguishes it, without details of storage."""
    if column.is_instant:
        return "DateTime64(9, 'UTC')"
    scalar = column.type.removeprefix("list<").removesuffix(">")
    type_name = _STORE_TYPES.get(scalar) or scalar.capitalize().replace("Uint", "UInt")
    return f"Array({type_name})" if column.is_list else type_name


def _type_in_view(column: str) -> str:
    """Return the type of a column of VIEWS from its name; a test compares it with the engine's type."""
    if column in ("cdn", "vantage", "purpose", "first_answer"):
        return "String"
    if column in ("day", "hour"):
        return "Date" if column == "day" else "DateTime('UTC')"
    return "Float64" if "_us" in column or column.endswith("share") else "UInt64"


def described(chart: Chart) -> dict[str, Any]:
    """Return a chart as Superset's file."""
    time = str(dataset(chart.dataset)["main_dttm_col"])
    filters: list[dict[str, Any]] = [_filter(time, "TEMPORAL_RANGE", _EVERYTHING)]
    filters += [_filter(*condition) for condition in chart.where]
    params: dict[str, Any] = {"viz_type": chart.kind, "adhoc_filters": filters, "row_limit": 10000}
    if chart.kind == "big_number_total":
        (params["metric"],) = chart.metrics
        params["y_axis_format"] = ",d"
    else:
        params |= {"metrics": chart.metrics, "groupby": chart.by}
    if chart.x:
        params |= {
            "x_axis": chart.x,
            "time_grain_sqla": "P1D",
            "y_axis_format": ",d",
            "rich_tooltip": True,
            "show_legend": True,
            "show_empty_columns": False,
        }
    elif chart.kind == "table":
        params |= {"query_mode": "aggregate", "order_desc": True, "show_cell_bars": False}
    return {
        "slice_name": chart.title,
        "description": chart.meaning,
        "viz_type": chart.kind,
        "params": params | chart.more,
        "cache_timeout": None,
        "uuid": identity("chart", chart.title),
        "version": VERSION,
        "dataset_uuid": identity("dataset", chart.dataset),
    }


def _filter(column: str, operator: str, value: Any) -> dict[str, Any]:
    return {
        "clause": "WHERE",
        "expressionType": "SIMPLE",
        "subject": column,
        "operator": operator,
        "comparator": value,
    }


def dashboard() -> dict[str, Any]:
    """Return the dashboard: its charts in rows, and filters of time, CDN and vantage point."""
    title = "First answers of QUIC servers"
    position: dict[str, Any] = {
        "DASHBOARD_VERSION_KEY": "v2",
        "ROOT_ID": {"type": "ROOT", "id": "ROOT_ID", "children": ["GRID_ID"]},
        "GRID_ID": {"type": "GRID", "id": "GRID_ID", "parents": ["ROOT_ID"], "children": []},
        "HEADER_ID": {"type": "HEADER", "id": "HEADER_ID", "meta": {"text": title}},
    }
    row, used = "", 12
    for number, chart in enumerate(CHARTS, start=1):
        if used + chart.width > 12:
            row, used = f"ROW-{number}", 0
            position["GRID_ID"]["children"].append(row)
            position[row] = {
                "type": "ROW",
                "id": row,
                "parents": ["ROOT_ID", "GRID_ID"],
                "children": [],
                "meta": {"background": "BACKGROUND_TRANSPARENT"},
            }
        used += chart.width
        chart_id = f"CHART-{number}"
        position[row]["children"].append(chart_id)
        position[chart_id] = {
            "type": "CHART",
            "id": chart_id,
            "parents": ["ROOT_ID", "GRID_ID", row],
            "children": [],
            "meta": {
                "chartId": number,
                "sliceName": chart.title,
                "uuid": identity("chart", chart.title),
                "width": chart.width,
                "height": 50,
            },
        }
    return {
        "dashboard_title": title,
        "slug": NAME,
        "description": "Numbers by docs/definitions.md; the report of a run is its record.",
        "css": "",
        "published": True,
        "position": position,
        "metadata": {
            "native_filter_configuration": _dashboard_filters(),
            "cross_filters_enabled": True,
            "refresh_frequency": 0,
            "timed_refresh_immune_slices": [],
            "expanded_slices": {},
            "color_scheme": "supersetColors",
        },
        "uuid": identity("dashboard"),
        "version": VERSION,
    }


def _dashboard_filters() -> list[dict[str, Any]]:
    filters: list[dict[str, Any]] = []
    for name, column in (("Time", ""), ("CDN", "cdn"), ("Vantage point", "vantage")):
        target = {"column": {"name": column}, "datasetUuid": identity("dataset", "probes_by_day")}
        filters.append(
            {
                "id": f"NATIVE_FILTER-{column or 'time'}",
                "type": "NATIVE_FILTER",
                "name": name,
                "filterType": "filter_select" if column else "filter_time",
                "targets": [target if column else {}],
                "controlValues": {"multiSelect": True, "enableEmptyFilter": False} if column else {},
                "scope": {"rootPath": ["ROOT_ID"], "excluded": []},
                "defaultDataMask": {"extraFormData": {}, "filterState": {}, "ownState": {}},
                "cascadeParentIds": [],
                "description": "",
            }
        )
    return filters


if __name__ == "__main__":
    sys.exit(generated.main("reports.superset", files))
