"""The files of the Superset assets, checked against the schemas, and their SQL against the engine.

`make superset-test` imports them into Superset and opens the dashboard. Here, statements have the same form
as in Superset: the start of a period has the name of the column, and metrics have their names.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from clickhouse_driver.errors import ServerException
from sqlalchemy.engine import make_url

from deploy.superset import start
from reports import superset
from schemas import records, sql
from store.address.url import ServerLocation
from tests.queries.conftest import campaign, template
from tests.store.served.serving import serving

__all__ = ["campaign", "template"]

TREE = Path(__file__).parents[2]
BENCH = TREE / "deploy" / "superset"
# The classes of types in Superset's specification of ClickHouse, in its order.
CLASSES = ("Enum|Array|String", r"U?Int\d|Float|Decimal", "Date", "Bool")


def assets(kind: str) -> dict[str, dict[str, Any]]:
    """Return a kind's assets, as name -> content."""
    made = sorted(superset.files().items())
    return {Path(name).stem: yaml.safe_load(text) for name, text in made if name.startswith(f"{kind}/")}


Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def rows(campaign: str) -> Iterator[Rows]:
    """Return a function that queries the served store, with the settings in the database's URL or `other`."""
    address = assets("databases")["firstflight"]["sqlalchemy_uri"]
    given = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    with serving(Path(campaign.removeprefix("chdb:"))) as served, served.client() as client:

        def ask(text: str, **other: str) -> list[dict[str, Any]]:
            found, columns = client.execute(text, settings=given | other, with_column_types=True)
            return [dict(zip([name for name, _ in columns], row, strict=True)) for row in found]

        yield ask


def test_the_command_writes_all_files(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "reports.superset", str(tmp_path)]
    subprocess.run(argv, cwd=TREE, check=True)
    made = {
        str(path.relative_to(tmp_path)): path.read_text() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert made == superset.files()
    assert len(made) > 20


def test_columns_have_our_comments() -> None:
    found = assets("datasets")
    assert {"quic_probe", "quic_handshake", "dns_answer", "download", "watch_slot"} <= set(found)
    for name, dataset in found.items():
        comments = {
            dataset_column["column_name"]: dataset_column["description"]
            for dataset_column in dataset["columns"]
        }
        if name in superset.VIEWS:
            (expected,) = (view.columns for view in sql.views() if view.name == name)
        else:
            expected = {column.name: column.comment for column in records.load(name).columns}
        assert comments == expected
        (time,) = (
            dataset_column
            for dataset_column in dataset["columns"]
            if dataset_column["column_name"] == dataset["main_dttm_col"]
        )
        assert time["is_dttm"]


def test_assets_refer_to_each_other() -> None:
    databases, datasets, charts = assets("databases"), assets("datasets"), assets("charts")
    (database,) = databases.values()
    assert {dataset_asset["database_uuid"] for dataset_asset in datasets.values()} == {database["uuid"]}
    (dashboard,) = assets("dashboards").values()
    placed = [
        item["meta"] for item in dashboard["position"].values() if "CHART" in str(dict_of(item).get("type"))
    ]
    assert sorted(asset["uuid"] for asset in placed) == sorted(asset["uuid"] for asset in charts.values())
    by_uuid = {asset["uuid"]: asset for asset in datasets.values()}
    for chart in charts.values():
        dataset = by_uuid[chart["dataset_uuid"]]
        columns = {dataset_column["column_name"] for dataset_column in dataset["columns"]}
        metrics = {metric["metric_name"] for metric in dataset["metrics"]}
        # If a metric had a column's name, ORDER BY would use the column.
        assert not columns & metrics
        params = chart["params"]
        assert {*params.get("metrics", ()), *([params["metric"]] if "metric" in params else [])} <= metrics
        used = {*params.get("groupby", ()), *(condition["subject"] for condition in params["adhoc_filters"])}
        assert used <= columns and params.get("x_axis", dataset["main_dttm_col"]) in columns
    for native_filter in dashboard["metadata"]["native_filter_configuration"]:
        (target,) = native_filter["targets"]
        if target:
            names = {column["column_name"] for column in by_uuid[target["datasetUuid"]]["columns"]}
            assert target["column"]["name"] in names


def dict_of(value: Any) -> dict[str, Any]:
    """Return the value if it is a dict, else an empty dict."""
    return value if isinstance(value, dict) else {}


def class_of(kind: str) -> int:
    """Return the index in CLASSES of a type."""
    return next(n for n, pattern in enumerate(CLASSES) if re.search(pattern, kind))


def test_types_are_the_stores(rows: Rows) -> None:
    for name, dataset in assets("datasets").items():
        stored = {
            column["name"]: column["type"]
            for column in rows(
                f"SELECT name, type FROM system.columns WHERE database = 'firstflight' AND table = '{name}'",
            )
        }
        ours = {column["column_name"]: column["type"] for column in dataset["columns"]}
        assert set(ours) == set(stored), name
        wrong = {c: (ours[c], stored[c]) for c in ours if class_of(ours[c]) != class_of(stored[c])}
        assert not wrong, name


def statement(chart: Mapping[str, Any]) -> str:
    """Return the statement for a chart as Superset writes it, for all days."""
    (dataset,) = (asset for asset in assets("datasets").values() if asset["uuid"] == chart["dataset_uuid"])
    expressions = {metric["metric_name"]: metric["expression"] for metric in dataset["metrics"]}
    params = chart["params"]
    metrics = params.get("metrics") or [params["metric"]]
    period = f"toStartOfDay(toDateTime({params['x_axis']}))" if "x_axis" in params else ""
    grouped = [*([period] if period else []), *params.get("groupby", ())]
    selected = [f"{period} AS {params['x_axis']}"] if period else []
    selected += [*params.get("groupby", ()), *(f"{expressions[name]} AS {name}" for name in metrics)]
    conditions = [
        f"{condition['subject']} = {condition['comparator']!r}"
        for condition in params["adhoc_filters"]
        if condition["operator"] == "=="
    ]
    conditions.append(f"{dataset['main_dttm_col']} >= toDate('2026-01-01')")
    text = f"SELECT {', '.join(selected)} FROM {dataset['table_name']} WHERE {' AND '.join(conditions)}"
    if grouped:
        text += f" GROUP BY {', '.join(grouped)}"
    return f"{text} ORDER BY {metrics[0]} DESC LIMIT 10000"


def test_charts_have_the_numbers_of_the_store(rows: Rows) -> None:
    found = {name: rows(statement(chart)) for name, chart in assets("charts").items()}
    assert all(found.values()), {name for name, answer in found.items() if not answer}
    (total,) = rows(
        "SELECT sum(probes) AS n, sum(iack) AS i, sum(iack + coalesced + sh_first) AS a FROM probes_by_day",
    )
    assert found["probes"] == [{"all_probes": total["n"]}]
    assert sum(row["all_probes"] for row in found["probes_by_vantage_point"]) == total["n"]
    assert sum(row["answered_probes"] for row in found["cdns"]) == total["a"]
    for row in found["share_of_instant_acks"]:
        day = f"{row['day']:%Y-%m-%d}"
        (by_hand,) = rows(
            f"SELECT sum(iack) / nullIf(sum(iack + coalesced + sh_first), 0) AS share FROM probes_by_day "
            f"WHERE day = '{day}' AND cdn = '{row['cdn']}'",
        )
        assert row["share_of_instant_acks"] == pytest.approx(by_hand["share"])
    (probes,) = rows("SELECT count() AS n FROM quic_probe WHERE sent_at IS NOT NULL")
    assert sum(row["all_probes"] for row in found["outcomes"]) == probes["n"]
    delays = {row["cdn"]: row for row in found["from_ack_to_serverhello"]}
    (google,) = rows(
        "SELECT count() AS n, quantileExact(0.5)(sh_us - ack_us) AS median FROM quic_probe "
        "WHERE cdn = 'Google' AND outcome = 'iack' AND attempts = 1",
    )
    assert (delays["Google"]["delays"], delays["Google"]["median_ack_to_sh_us"]) == (
        google["n"],
        google["median"],
    )


def test_the_setting_of_the_address_is_needed(rows: Rows) -> None:
    """Without the setting, WHERE refers to the start of the day, and the engine rejects that."""
    text = (
        "SELECT toStartOfDay(toDateTime(sent_at)) AS sent_at, count() AS n FROM quic_probe "
        "WHERE sent_at >= toDateTime('2026-11-20 05:00:00', 'UTC') "
        "AND sent_at < toDateTime('2026-11-21 00:00:00', 'UTC') "
        "GROUP BY toStartOfDay(toDateTime(sent_at))"
    )
    (row,) = rows(text)
    assert row["n"] == 13
    with pytest.raises(ServerException, match="NOT_AN_AGGREGATE"):
        rows(text, prefer_column_name_to_alias="0")


@pytest.mark.parametrize("view", sorted(view.name for view in sql.views()))
def test_views_mean_the_same_with_the_setting(rows: Rows, view: str) -> None:
    """The setting also applies to a view's SELECT."""
    # Clients cannot read a state of quantiles.
    states = [column.name for column in records.load("probe_day").columns if column.type == "quantiles"]
    (columns,) = (
        [*view_definition.columns] for view_definition in sql.views() if view_definition.name == view
    )
    if view == "probe_day_all":
        columns = [name for name in columns if name not in states]
    text = f"SELECT {', '.join(f'`{name}`' for name in columns)} FROM {view}"
    assert sorted(map(str, rows(text))) == sorted(map(str, rows(text, prefer_column_name_to_alias="0")))


def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the settings of superset_config.py for an installation in `folder`."""
    monkeypatch.setenv("FIRSTFLIGHT_SUPERSET", str(folder))
    return runpy.run_path(str(BENCH / "superset_config.py"))


def test_settings_name_no_other_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "ENVIRONMENT", tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gunicorn").touch()
    folder = tmp_path / "bench"
    start.prepare(folder)
    made = settings(folder, monkeypatch)
    assert len(made["SECRET_KEY"]) > 80
    policy = made["TALISMAN_CONFIG"]["content_security_policy"]
    allowed = {
        source
        for sources in policy.values()
        for source in ([sources] if isinstance(sources, str) else sources)
    }
    assert not any("." in source or "*" in source for source in allowed)
    assert made["SQLALCHEMY_DATABASE_URI"].startswith(f"sqlite:///{folder}/")
    first = {path.name: (path.read_text(), path.stat().st_mode & 0o777) for path in folder.iterdir()}
    assert set(first) == {"secret_key", "admin_password"} and {mode for _, mode in first.values()} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700
    start.prepare(folder)
    assert {path.name: (path.read_text(), 0o600) for path in folder.iterdir()} == first


def test_connections_get_the_stores_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret_key").write_text("x" * 86)
    start.keep(tmp_path / "store_url", "clickhouse+native://me:a%2Fb@127.0.0.1:9001/firstflight?secure=1")
    connect = settings(tmp_path, monkeypatch)["DB_CONNECTION_MUTATOR"]
    (database,) = assets("databases").values()
    given, params = connect(make_url(database["sqlalchemy_uri"]), {"a": 1}, "admin", None, None)
    assert given.render_as_string(hide_password=False) == (
        "clickhouse+native://me:a%2Fb@127.0.0.1:9001/firstflight?prefer_column_name_to_alias=1&secure=1&session_timezone=UTC"
    )
    assert params == {"a": 1}
    other = make_url("sqlite:///x.db")
    assert connect(other, {}, "admin", None, None) == (other, {})


@pytest.mark.parametrize(
    ("store", "expected"),
    [
        (
            ServerLocation("127.0.0.1", 9000, "firstflight", "default", "a/b@c"),
            "clickhouse+native://default:a%2Fb%40c@127.0.0.1:9000/firstflight",
        ),
        (
            ServerLocation("2001:db8::1", 9440, "x", "analyst", "p", secure=True, ca_certs="/etc/ca.pem"),
            "clickhouse+native://analyst:p@[2001:db8::1]:9440/x?secure=1&verify=1&ca_certs=%2Fetc%2Fca.pem",
        ),
        (
            ServerLocation("db", 9440, "x", secure=True, verify=False),
            "clickhouse+native://default:@db:9440/x?secure=1&verify=0",
        ),
    ],
)
def test_the_stores_address(store: ServerLocation, expected: str) -> None:
    assert start.address(store) == expected


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("--host", "0.0.0.0"), "plain HTTP"),
        (("--host", "example.org"), "plain HTTP"),
        (("--port", "0"), "is no port"),
    ],
)
def test_wrong_use_is_one_sentence(tmp_path: Path, options: tuple[str, ...], shown: str) -> None:
    command = [sys.executable, "-m", "deploy.superset.start", "--folder", str(tmp_path / "bench"), *options]
    done = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and shown in done.stderr
    assert not (tmp_path / "bench").exists()


def test_the_environment_has_no_secret_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_STORE", "clickhouse://u:secret@db:9000/firstflight")
    monkeypatch.setenv("SUPERSET_SECRET_KEY", "secret")
    assert not any("secret" in value for value in start.environment(tmp_path).values())


def test_pins_are_complete_and_its_own() -> None:
    lines = (TREE / "requirements-superset.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    # Some are for certain versions of Python only: NAME==VERSION ; MARKER.
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+( *;.+)?", pin) for pin in pins)
    assert pins[0].startswith("apache-superset==") and any(
        p.startswith("clickhouse-sqlalchemy==") for p in pins
    )
    extras = tomllib.loads((TREE / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]
    assert "superset" not in str(extras)
