"""The DAG files: they load without a database, cheaply, and assign each task to its queue."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from orchestration import stages
from orchestration.site.vantage_points import load
from orchestration.site.vantage_points import pools as pools_of
from orchestration.stages import RunPlan
from reports import query
from schemas import sql
from tests.airflow.conftest import SITE, TREE, airflow_environment, parse_dags

VANTAGES = load(SITE / "vantage_points.toml").vantage
SCANNING = ("resolve", "probe", "handshake", "calibrate")
SENDING = frozenset(stage.name for stage in stages.STAGES if stage.sends)


def test_every_file_loads_without_database_or_warning(parsed: dict[str, Any]) -> None:
    assert parsed["errors"] == {}
    assert parsed["warnings"] == []
    assert "Deprecat" not in parsed["stderr"]
    daily, weekly = {"targets", "as_data"}, {"crawl", "tcp_options", "downloads"}
    assert set(parsed["dags"]) == daily | weekly | {"quic_scan", "cdn_watch"}


def test_parsing_costs_little_and_no_heavy_import(parsed: dict[str, Any]) -> None:
    """CPU time relative to importing Airflow in the same process: about a tenth, 0.2 s."""
    assert costs(parsed) == []


def test_a_heavy_import_shows(tmp_path: Path) -> None:
    """The check fails if a further DAG file imports forbidden modules."""
    dags = tmp_path / "dags"
    shutil.copytree(TREE / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    (dags / "heavy.py").write_text("import pandas, pyarrow.dataset  # Airflow reads files with a DAG\n")
    found = parse_dags(tmp_path, SITE, dags)
    assert found["errors"] == {}
    print(found["cost_s"], found["import_s"], found["heavy"])
    assert costs(found) == ["CPU time", "imports"]


def costs(parsed: dict[str, Any]) -> list[str]:
    """Return the names of the parsing costs that exceed their limits."""
    wrong = {"CPU time": parsed["cost_s"] >= parsed["import_s"] / 4, "imports": parsed["heavy"] != []}
    return [name for name, found in wrong.items() if found]


def test_tasks_of_a_vantage_point_go_to_its_worker_and_no_other_task_does(parsed: dict[str, Any]) -> None:
    queues = {vantage.name: vantage.queue for vantage in VANTAGES}
    at_vantage = 0
    for dag in parsed["dags"].values():
        for task in dag["tasks"]:
            name = task["task_id"].split(".")[0]
            if name in queues:
                at_vantage += 1
                assert (task["queue"], task["executor"]) == (queues[name], "EdgeExecutor"), task
            else:
                assert (task["queue"], task["executor"]) == ("default", None), task
    assert at_vantage >= 5 * len(VANTAGES)


def test_sending_tasks_take_a_slot_of_their_vantage_point(parsed: dict[str, Any]) -> None:
    pools = {pool for v in VANTAGES for pool in (v.scan_pool, v.watch_pool, v.download_pool)}
    for dag in parsed["dags"].values():
        for task in dag["tasks"]:
            sends = task["task_id"].rpartition(".")[2] in SENDING
            assert (task["pool"] in pools) is sends, task
            if sends:
                assert task["pool"].endswith("_" + task["task_id"].split(".")[0])


def test_a_vantage_point_that_is_down_takes_no_place_from_others(parsed: dict[str, Any]) -> None:
    pools = set(pools_of(load(SITE / "vantage_points.toml")))
    for dag in parsed["dags"].values():
        for task in dag["tasks"]:
            where = task["task_id"].split(".")[0]
            if "." in task["task_id"]:
                assert task["pool"] in pools and task["pool"].partition("_")[2] == where, task
            else:
                assert task["pool"] == "default_pool", task
    # As long as a vantage point may be down, the runs of every hour and day are open at the same time.
    watch, scan = parsed["dags"]["cdn_watch"], parsed["dags"]["quic_scan"]
    assert watch["max_active_runs"] > watch["timeout_s"] / 3600
    assert scan["max_active_runs"] > scan["timeout_s"] / 86400
    assert scan["max_active_tasks"] >= 4 * len(VANTAGES) and watch["max_active_tasks"] >= 4 * len(VANTAGES)


def test_tasks_are_tried_again_with_back_off(parsed: dict[str, Any]) -> None:
    for name in ("targets", "as_data", "quic_scan", "crawl", "tcp_options", "downloads"):
        for task in parsed["dags"][name]["tasks"]:
            assert task["retries"] >= 3 and task["backoff"] and task["delay_s"] == 120, task


def test_a_failed_scan_of_networks_does_not_block_the_probes(parsed: dict[str, Any]) -> None:
    tasks = {task["task_id"]: task for task in parsed["dags"]["quic_scan"]["tasks"]}
    for prefix in (f"{vantage.name}.repetition." for vantage in VANTAGES):
        scan, probe = tasks[f"{prefix}scan"], tasks[f"{prefix}probe"]
        assert (scan["trigger_rule"], scan["retries"]) == ("all_success", 3)
        assert probe["trigger_rule"] == "all_done_min_one_success"
        assert {f"{prefix}resolve", f"{prefix}scan"} < set(probe["upstream"])
        after = tasks[f"{prefix}handshake"]
        assert after["trigger_rule"] == "all_success" and f"{prefix}scan" not in after["upstream"]


def test_a_watch_is_tried_again_soon_and_for_a_day(parsed: dict[str, Any]) -> None:
    for task in parsed["dags"]["cdn_watch"]["tasks"]:
        if task["task_id"].endswith((".fetch_inputs", ".watch")):
            assert task["delay_s"] <= 15 and task["most_s"] <= 300, task
            assert task["retries"] * task["most_s"] >= 86_400, task


def test_the_report_does_not_wait_for_a_failed_vantage_point(parsed: dict[str, Any]) -> None:
    tasks = {task["task_id"]: task for task in parsed["dags"]["quic_scan"]["tasks"]}
    assert tasks["report"]["upstream"] == ["gather", "open"]
    assert tasks["gather"]["upstream"] == ["open"]
    # The centre skips an excluded vantage point, so its worker may be down.
    assert all(set(tasks[f"{v.name}.fetch_inputs"]["upstream"]) == {"choose", "open"} for v in VANTAGES)
    late = tasks["late_report"]
    assert late["trigger_rule"] == "all_done"
    assert set(late["upstream"]) == {"report", "open", *(f"{v.name}.repetition.load" for v in VANTAGES)}
    for vantage in VANTAGES:
        for task_id, task in tasks.items():
            others = [u for u in task["upstream"] if "." in u and not u.startswith(f"{vantage.name}.")]
            assert not (task_id.startswith(f"{vantage.name}.") and others), task


def test_a_vantage_point_with_shards_has_tasks_for_each(tmp_path: Path) -> None:
    text = (SITE / "vantage_points.toml").read_text()
    (tmp_path / "vantage_points.toml").write_text(
        text.replace('queue = "hamburg"', 'queue = "hamburg"\nshards = 3')
    )
    parsed = parse_dags(tmp_path, tmp_path)
    assert parsed["errors"] == {} and parsed["warnings"] == []
    tasks = {task["task_id"]: task for task in parsed["dags"]["quic_scan"]["tasks"]}
    for stage in (*SCANNING, "dissect", "load"):
        assert f"hamburg.repetition.{stage}" not in tasks
        for index in range(3):
            task = tasks[f"hamburg.shard_{index}.{stage}"]
            assert (task["shard"], task["queue"]) == (f"{index}/3", "hamburg")
            sends = stage in SENDING
            assert task["pool"] == (f"scan_hamburg.{index}" if sends else "work_hamburg")
        assert tasks[f"hong_kong.repetition.{stage}"]["shard"] == "0/1"
    ends = {*(f"hamburg.shard_{index}.load" for index in range(3)), "hong_kong.repetition.load"}
    assert ends < set(tasks["late_report"]["upstream"])
    # The others are not divided; the survey waits for scans of the first shard.
    watch = {task["task_id"] for task in parsed["dags"]["cdn_watch"]["tasks"]}
    assert "hamburg.watch" in watch
    survey = {task["task_id"]: task for task in parsed["dags"]["tcp_options"]["tasks"]}
    asks = survey["hamburg.repetition.tcp_options"]
    assert (asks["shard"], asks["pool"]) == ("0/1", "scan_hamburg.0")
    downloads = {task["task_id"]: task for task in parsed["dags"]["downloads"]["tasks"]}
    gets = downloads["hamburg.repetition.download"]
    assert (gets["shard"], gets["pool"]) == ("0/1", "download_hamburg")


def test_newcomers_find_how_to_run_each(parsed: dict[str, Any]) -> None:
    for name, dag in parsed["dags"].items():
        assert 20 < len(dag["description"]) < 100, "the text beside its name in the list of DAGs"
        assert "**Run it now:**" in dag["doc"] and "fails:**" in dag["doc"], name
        assert max(map(len, dag["doc"].splitlines())) <= 110
        # Everything that the page names exists: parameters, queries, views, DAGs to backfill, assets.
        known = {*dag["params"], *query.names(), *(view.name for view in sql.views()), *parsed["dags"]}
        known |= {task["task_id"].rpartition(".")[2] for task in dag["tasks"]}
        known |= {"ip_forward", *dag["awaits"]} | {asset for task in dag["tasks"] for asset in task["assets"]}
        known |= {f"{kind}_NAME" for kind in ("scan", "watch", "download")} | {"scan_rate", "watch_rate"}
        named = set(re.findall(r"`([a-z]+(?:_[A-Za-z]+)+)`", dag["doc"]))
        assert named <= known, named - known
        for used in re.findall(r"firstflight query (\w+)", dag["doc"]):
            assert used in query.names()
        for used in re.findall(r"--dag-id (\w+)", dag["doc"]):
            assert used == name


@pytest.mark.parametrize(
    ("dag", "name", "good", "bad"),
    [
        ("quic_scan", "repetitions", [1, 30], [0, 1.5, "2", None]),
        ("quic_scan", "repetition_interval_minutes", [0, 1440, 0.5], [-1, "day"]),
        ("quic_scan", "rate", [None, 20, 0.5], [0, -1, "fast"]),
        ("quic_scan", "families", [[4], [6, 4]], [[], [5], [4, 4], 4]),
        ("quic_scan", "scan_networks", ["weekly", "always", "never"], ["daily", None]),
        ("quic_scan", "handshake_share", [None, 0, 0.01, 1], [-0.1, 1.1, "x"]),
        ("quic_scan", "vantage_points", [["hamburg"]], [[], ["nowhere"], ["hamburg", "hamburg"]]),
        ("quic_scan", "max_age_days", [0, 7], [-1, None]),
        ("quic_scan", "report_after_minutes", [0, 720], [-5, "soon"]),
        ("tcp_options", "max_age_days", [0, 7], [-1, None]),
        ("downloads", "vantage_points", [["hamburg"]], [[], ["nowhere"], ["hamburg", "hamburg"]]),
        ("downloads", "repetitions", [1, 30], [0, 1.5, "2", None]),
        ("cdn_watch", "vantage_points", [["hamburg"]], [[], ["nowhere"], ["hamburg", "hamburg"], None]),
        ("cdn_watch", "period_minutes", [1, 0.5, 1440], [0, -1, 1441, "hour", None]),
        ("cdn_watch", "begins_after_s", [0, 120], [-1, "soon", None]),
        ("cdn_watch", "minute_s", [None, 0.5, 60], [0, "minute"]),
    ],
)
def test_invalid_parameters_are_refused(
    parsed: dict[str, Any], dag: str, name: str, good: list[object], bad: list[object]
) -> None:
    schema = parsed["dags"][dag]["params"][name]
    for value in good:
        jsonschema.validate(value, schema)
    for value in bad:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(value, schema)


def test_a_scan_completes_handshakes_with_one_name_in_a_hundred(parsed: dict[str, Any]) -> None:
    assert parsed["dags"]["quic_scan"]["defaults"]["handshake_share"] == 0.01


def test_daily_fetches_can_be_filled_back_and_a_measurement_cannot(parsed: dict[str, Any]) -> None:
    dags = parsed["dags"]
    for name in ("targets", "as_data"):
        assert "Interval" in dags[name]["timetable"] or "Cron" in dags[name]["timetable"]
        assert dags[name]["catchup"] is False
    assert "Asset" in dags["quic_scan"]["timetable"]


def test_a_crawl_is_weekly_runs_at_the_centre_and_is_paused_by_default(
    parsed: dict[str, Any],
) -> None:
    crawl = parsed["dags"]["crawl"]
    upstream = {task["task_id"]: task["upstream"] for task in crawl["tasks"]}
    assert upstream == {"open": [], "crawl": ["open"], "load_run": ["crawl", "open"]}
    assert (crawl["paused"], crawl["catchup"], crawl["max_active_runs"]) == (True, False, 1)
    assert crawl["timetable"] == "CronTriggerTimetable"


def test_each_schedule_has_its_own_stages(parsed: dict[str, Any]) -> None:
    wanted = {
        "quic_scan": stages.names(stages.scheduled(RunPlan.SCAN)),
        "tcp_options": ["resolve", "tcp_options", "load"],
        "downloads": ["resolve", "download", "load"],
    }
    for name, in_order in wanted.items():
        for vantage in VANTAGES:
            group = f"{vantage.name}.repetition."
            tasks = {t["task_id"]: t["upstream"] for t in parsed["dags"][name]["tasks"]}
            found = {task.removeprefix(group) for task in tasks if task.startswith(group)}
            assert found == set(in_order), name
            for before, after in itertools.pairwise(in_order):
                assert f"{group}{before}" in tasks[f"{group}{after}"], (name, after)


def test_a_survey_is_weekly_and_paused_by_default(parsed: dict[str, Any]) -> None:
    survey = parsed["dags"]["tcp_options"]
    assert (survey["paused"], survey["catchup"]) == (True, False)
    assert survey["timetable"] == "CronTriggerTimetable"
    published = {task["task_id"]: task["assets"] for task in survey["tasks"] if task["assets"]}
    assert published == {f"{vantage.name}.repetition.load": ["tcp_option"] for vantage in VANTAGES}


def test_downloads_follow_a_crawl_one_run_at_a_time_at_each_vantage_point(parsed: dict[str, Any]) -> None:
    downloads = parsed["dags"]["downloads"]
    assert downloads["paused"] is True and "Asset" in downloads["timetable"]
    assert downloads["awaits"] == ["as_data", "download_targets"]
    assert downloads["awaits"][1] in parsed["dags"]["crawl"]["tasks"][1]["assets"]
    tasks = {task["task_id"]: task for task in downloads["tasks"]}
    pools = pools_of(load(SITE / "vantage_points.toml"))
    for vantage in VANTAGES:
        task = tasks[f"{vantage.name}.repetition.download"]
        assert task["pool"] == f"download_{vantage.name}" and pools[task["pool"]]["slots"] == 1
        assert tasks[f"{vantage.name}.repetition.load"]["assets"] == ["download"]
    others = [t["pool"] for name, dag in parsed["dags"].items() if name != "downloads" for t in dag["tasks"]]
    assert not [pool for pool in others if pool.startswith("download_")], "nothing else waits for downloads"


def test_a_wrong_vantage_file_is_one_sentence_in_the_page(tmp_path: Path) -> None:
    (tmp_path / "vantage_points.toml").write_text(
        '[[vantage]]\nname = "a"\ncity = "A"\nqueue = "a"\nrat = 5\n'
    )
    environment = {**airflow_environment(tmp_path), "FIRSTFLIGHT_SITE": str(tmp_path)}
    script = (
        "from airflow.dag_processing.dagbag import DagBag\n"
        f"print(list(DagBag({str(TREE / 'dags')!r}).import_errors.values())[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert f"{tmp_path}/vantage_points.toml: vantage.0.rat: no such setting" in done.stdout
