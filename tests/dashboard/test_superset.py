"""The assets of Superset as files: against the schemas, and their SQL against the engine.

`make superset-test` imports them into Superset and opens the dashboard. Here statements have the form that
Superset gives them: the start of a period under the name of the column, metrics under theirs.
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
from store.url import ServerLocation
from tests.queries.conftest import campaign, template
from tests.store.serving import serving

__all__ = ["campaign", "template"]

TREE = Path(__file__).parents[2]
BENCH = TREE / "deploy" / "superset"
FOLDER = BENCH / "assets"
# The class that Superset's specification of ClickHouse sees in a type, in its order.
CLASSES = ("Enum|Array|String", r"U?Int\d|Float|Decimal", "Date", "Bool")


def assets(kind: str) -> dict[str, dict[str, Any]]:
    """Return the committed files of a kind by name."""
    return {path.stem: yaml.safe_load(path.read_text()) for path in sorted((FOLDER / kind).rglob("*.yaml"))}


Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def rows(campaign: str) -> Iterator[Rows]:
    """What the served store answers, with the settings of the database's address or `other` ones."""
    address = assets("databases")["firstflight"]["sqlalchemy_uri"]
    given = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    with serving(Path(campaign.removeprefix("chdb:"))) as served, served.client() as client:

        def ask(text: str, **other: str) -> list[dict[str, Any]]:
            found, columns = client.execute(text, settings=given | other, with_column_types=True)
            return [dict(zip([name for name, _ in columns], row, strict=True)) for row in found]

        yield ask


def test_committed_files_are_what_the_generator_makes() -> None:
    there = {str(path.relative_to(FOLDER)): path.read_text() for path in FOLDER.rglob("*") if path.is_file()}
    assert there == superset.files()


def test_columns_have_our_comments() -> None:
    found = assets("datasets")
    assert {"quic_probe", "quic_handshake", "dns_answer", "download", "watch_slot"} <= set(found)
    for name, dataset in found.items():
        comments = {one["column_name"]: one["description"] for one in dataset["columns"]}
        if name in superset.VIEWS:
            (expected,) = (view.columns for view in sql.views() if view.name == name)
        else:
            expected = {column.name: column.comment for column in records.load(name).columns}
        assert comments == expected
        (time,) = (one for one in dataset["columns"] if one["column_name"] == dataset["main_dttm_col"])
        assert time["is_dttm"]


def test_assets_refer_to_each_other() -> None:
    databases, datasets, charts = assets("databases"), assets("datasets"), assets("charts")
    (database,) = databases.values()
    assert {one["database_uuid"] for one in datasets.values()} == {database["uuid"]}
    (dashboard,) = assets("dashboards").values()
    placed = [
        one["meta"] for one in dashboard["position"].values() if "CHART" in str(dict_of(one).get("type"))
    ]
    assert sorted(one["uuid"] for one in placed) == sorted(one["uuid"] for one in charts.values())
    by_uuid = {one["uuid"]: one for one in datasets.values()}
    for chart in charts.values():
        dataset = by_uuid[chart["dataset_uuid"]]
        columns = {one["column_name"] for one in dataset["columns"]}
        metrics = {one["metric_name"] for one in dataset["metrics"]}
        # ORDER BY a metric that is called like a column would mean the column.
        assert not columns & metrics
        params = chart["params"]
        assert {*params.get("metrics", ()), *([params["metric"]] if "metric" in params else [])} <= metrics
        used = {*params.get("groupby", ()), *(one["subject"] for one in params["adhoc_filters"])}
        assert used <= columns and params.get("x_axis", dataset["main_dttm_col"]) in columns
    for one in dashboard["metadata"]["native_filter_configuration"]:
        (target,) = one["targets"]
        if target:
            names = {column["column_name"] for column in by_uuid[target["datasetUuid"]]["columns"]}
            assert target["column"]["name"] in names


def dict_of(value: Any) -> dict[str, Any]:
    """Return a dict, an empty one in the place of another value."""
    return value if isinstance(value, dict) else {}


def class_of(kind: str) -> int:
    """Return which of CLASSES a type is."""
    return next(n for n, pattern in enumerate(CLASSES) if re.search(pattern, kind))


def test_types_are_the_stores(rows: Rows) -> None:
    for name, dataset in assets("datasets").items():
        there = {
            one["name"]: one["type"]
            for one in rows(
                f"SELECT name, type FROM system.columns WHERE database = 'firstflight' AND table = '{name}'",
            )
        }
        ours = {one["column_name"]: one["type"] for one in dataset["columns"]}
        assert set(ours) == set(there), name
        wrong = {c: (ours[c], there[c]) for c in ours if class_of(ours[c]) != class_of(there[c])}
        assert not wrong, name


def statement(chart: Mapping[str, Any]) -> str:
    """Return the statement of a chart as Superset writes it, of all days."""
    (dataset,) = (one for one in assets("datasets").values() if one["uuid"] == chart["dataset_uuid"])
    expressions = {one["metric_name"]: one["expression"] for one in dataset["metrics"]}
    params = chart["params"]
    metrics = params.get("metrics") or [params["metric"]]
    period = f"toStartOfDay(toDateTime({params['x_axis']}))" if "x_axis" in params else ""
    grouped = [*([period] if period else []), *params.get("groupby", ())]
    selected = [f"{period} AS {params['x_axis']}"] if period else []
    selected += [*params.get("groupby", ()), *(f"{expressions[name]} AS {name}" for name in metrics)]
    where = [
        f"{one['subject']} = {one['comparator']!r}"
        for one in params["adhoc_filters"]
        if one["operator"] == "=="
    ]
    where.append(f"{dataset['main_dttm_col']} >= toDate('2026-01-01')")
    text = f"SELECT {', '.join(selected)} FROM {dataset['table_name']} WHERE {' AND '.join(where)}"
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
    assert sum(one["all_probes"] for one in found["probes_by_vantage_point"]) == total["n"]
    assert sum(one["answered_probes"] for one in found["cdns"]) == total["a"]
    for one in found["share_of_instant_acks"]:
        day = f"{one['day']:%Y-%m-%d}"
        (by_hand,) = rows(
            f"SELECT sum(iack) / nullIf(sum(iack + coalesced + sh_first), 0) AS share FROM probes_by_day "
            f"WHERE day = '{day}' AND cdn = '{one['cdn']}'",
        )
        assert one["share_of_instant_acks"] == pytest.approx(by_hand["share"])
    (probes,) = rows("SELECT count() AS n FROM quic_probe WHERE sent_at IS NOT NULL")
    assert sum(one["all_probes"] for one in found["outcomes"]) == probes["n"]
    delays = {one["cdn"]: one for one in found["from_ack_to_serverhello"]}
    (google,) = rows(
        "SELECT count() AS n, quantileExact(0.5)(sh_us - ack_us) AS median FROM quic_probe "
        "WHERE cdn = 'Google' AND outcome = 'iack' AND attempts = 1",
    )
    assert (delays["Google"]["delays"], delays["Google"]["median_ack_to_sh_us"]) == (
        google["n"],
        google["median"],
    )


def test_the_setting_of_the_address_is_needed(rows: Rows) -> None:
    """Without it WHERE means the start of the day, and the engine refuses that."""
    text = (
        "SELECT toStartOfDay(toDateTime(sent_at)) AS sent_at, count() AS n FROM quic_probe "
        "WHERE sent_at >= toDateTime('2026-11-20 05:00:00', 'UTC') "
        "AND sent_at < toDateTime('2026-11-21 00:00:00', 'UTC') "
        "GROUP BY toStartOfDay(toDateTime(sent_at))"
    )
    (one,) = rows(text)
    assert one["n"] == 13
    with pytest.raises(ServerException, match="NOT_AN_AGGREGATE"):
        rows(text, prefer_column_name_to_alias="0")


@pytest.mark.parametrize("view", sorted(view.name for view in sql.views()))
def test_views_mean_the_same_with_the_setting(rows: Rows, view: str) -> None:
    """A view's own SELECT gets the setting, too."""
    # A state of quantiles is no value that a client reads.
    states = [one.name for one in records.load("probe_day").columns if one.type == "quantiles"]
    (columns,) = ([*one.columns] for one in sql.views() if one.name == view)
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
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+]+", pin) for pin in pins)
    assert pins[0].startswith("apache-superset==") and any(
        p.startswith("clickhouse-sqlalchemy==") for p in pins
    )
    extras = tomllib.loads((TREE / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]
    assert "superset" not in str(extras)
