"""A whole site over the lab, as `make airflow` starts it: the worker or the centre is killed during scans."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import jwt
import pytest
import requests

from orchestration.site import machine_metrics
from tests.airflow import stolen_secret
from tests.airflow.conftest import TREE
from tests.airflow.site import RunningSite, wait_for
from tests.airflow.site_fixtures import (
    DAILY,
    FILES,
    KILLED,
    OPTOUT_STATUS,
    VANTAGES,
    WATCHING,
    AirflowScan,
    FirstTry,
    Stolen,
    fetch_task,
    halt_prober,
    runs_of,
    trigger_watch,
)
from tests.airflow.site_fixtures import crawled as crawled
from tests.airflow.site_fixtures import first_tries as first_tries
from tests.airflow.site_fixtures import scan as scan
from tests.airflow.site_fixtures import site as site
from tests.airflow.site_fixtures import stolen as stolen
from tests.airflow.site_fixtures import watch_dag as watch_dag
from tests.airflow.site_fixtures import watched as watched
from tests.airflow.stolen_secret import Request, edge, execution, inputs, send, signed
from tests.browser import Browser
from tests.browser import browser as browser
from tests.processes import go_on_when_interrupted


def test_broken_lists_are_refused_reported_and_fetched_again(
    site: RunningSite, first_tries: dict[str, FirstTry]
) -> None:
    assert "cannot fetch the Tranco list of" in first_tries["targets"].log
    assert "the host answered 500" in first_tries["targets"].log
    assert "is cut short" in first_tries["as_data"].log
    for dag, first in first_tries.items():
        last = fetch_task(site, dag)["try_number"]
        # The first try after the repair succeeded. A try that ran during the repair may have succeeded, too.
        assert last in {first.number + 1, first.number if first.state != "up_for_retry" else 0}, (last, first)
        assert last > 1


def test_every_row_is_there_once(site: RunningSite, scan: AirflowScan) -> None:
    select = "SELECT vantage, count() AS n, uniqExact(domain, ip) AS different FROM quic_probe "
    rows = site.rows(f"{select} WHERE run = '{scan.run}' GROUP BY vantage")
    targets = {
        vantage: sum(1 for _ in (folder / "1/probe/targets.csv").open()) - 1
        for vantage in VANTAGES
        for folder in [site.folder / vantage / "runs" / scan.run / vantage]
    }
    assert all(count > 400 for count in targets.values())
    assert {row["vantage"]: row["n"] for row in rows} == targets
    assert {row["vantage"]: row["different"] for row in rows} == targets


def test_each_vantage_point_completes_handshakes_with_the_same_names(
    site: RunningSite, scan: AirflowScan
) -> None:
    select = "SELECT vantage, arraySort(groupUniqArray(domain)) AS names, countIf(outcome = 'done') AS done "
    rows = site.rows(f"{select} FROM quic_handshake WHERE run = '{scan.run}' GROUP BY vantage ORDER BY ALL")
    assert [row["vantage"] for row in rows] == sorted(VANTAGES)
    # 5 % of some 450 names, drawn by the run's seed.
    assert 8 <= len(rows[0]["names"]) <= 45 and all(row["done"] > 0 for row in rows), rows
    assert all(row["names"] == rows[0]["names"] for row in rows), rows


def test_each_vantage_points_rows_left_by_its_own_address_and_worker(
    site: RunningSite, scan: AirflowScan
) -> None:
    select = "SELECT DISTINCT vantage, src_ip, worker FROM quic_probe "
    rows = site.rows(f"{select} WHERE run = '{scan.run}' AND attempts > 0 ORDER BY ALL")
    found: dict[str, set[str]] = {}
    for row in rows:
        assert row["worker"] == row["vantage"]
        found.setdefault(row["vantage"], set()).add(row["src_ip"])
    assert found == {vantage: set(sources) for vantage, sources in VANTAGES.items()}


def test_the_killed_worker_was_in_the_middle_and_went_on(site: RunningSite, scan: AirflowScan) -> None:
    assert len(scan.killed) > 2, "the worker had no task when it was killed"
    tasks = site.tasks("quic_scan", scan.dag_run)
    assert tasks[f"{KILLED}.repetition.probe#0"]["try_number"] == 2
    captures = sorted(p.name for p in (site.folder / KILLED / "runs" / scan.run).rglob("probe*.pcap"))
    assert captures == ["probe-2.pcap", "probe.pcap"]
    for name, task in tasks.items():
        vantage = name.split(".")[0]
        if vantage in VANTAGES:
            assert (task["queue"], task["hostname"]) == (vantage, vantage), name
        if name != f"{KILLED}.repetition.probe#0":
            assert task["try_number"] == 1, name


@pytest.mark.usefixtures("scan")
def test_the_killed_worker_restarts_once_and_logs_why_it_waits(site: RunningSite) -> None:
    printed = site.log_file.read_text()
    assert printed.count(f"worker-{KILLED} was killed by signal 9; it is started again") == 1
    assert f"worker-{KILLED} ended" not in printed
    log = (site.folder / "logs" / f"worker-{KILLED}.log").read_text()
    assert log.count("the worker before this one was killed") == 1
    assert "already active" not in log


def test_a_watch_paces_itself_and_every_slot_is_a_row(
    site: RunningSite, scan: AirflowScan, watched: str
) -> None:
    del scan  # waiting for its end costs nothing more
    assert site.run_to_end("cdn_watch", watched, 240) == "success", site.describe("cdn_watch", watched)
    run = site.xcom("cdn_watch", watched, "open")
    rows = site.rows(
        "SELECT purpose, count() AS slots, countIf(state = 'probed') AS probed, uniqExact(slot) AS different "
        f"FROM watch_slot WHERE run = '{run}' AND vantage = '{WATCHING}' GROUP BY purpose"
    )
    # Three minutes of ten seconds: nine names, and the owned one sixty times a minute.
    assert {row["purpose"]: row["slots"] for row in rows} == {"watch": 27, "owned": 180}
    assert all(row["different"] == row["slots"] for row in rows)
    assert sum(row["probed"] for row in rows) > 150
    probes = site.rows(
        f"SELECT vantage, worker, count() AS n FROM quic_probe WHERE run = '{run}' GROUP BY ALL"
    )
    assert probes == [{"vantage": WATCHING, "worker": WATCHING, "n": sum(row["probed"] for row in rows)}]


def test_the_report_covers_all_vantage_points(site: RunningSite, scan: AirflowScan) -> None:
    report = site.xcom("quic_scan", scan.dag_run, "report")
    assert report["missing"] == [] and set(report["rows"]) == set(VANTAGES)
    assert (site.folder / "reports" / scan.run / "index.html").stat().st_size > 10_000
    rows = site.rows(f"SELECT state, manifest FROM run WHERE run = '{scan.run}'")
    assert [row["state"] for row in rows] == ["done"]
    assert json.loads(rows[0]["manifest"])["missing"] == []
    assert site.tasks("quic_scan", scan.dag_run)["late_report"]["state"] == "skipped"


@pytest.mark.usefixtures("scan")
def test_the_line_for_sql_works_as_printed(site: RunningSite) -> None:
    assert f"sql       {site.sql_line}\n" in site.log_file.read_text()
    assert f"reports   {site.folder}/reports/RUN/index.html" in site.log_file.read_text()
    outside = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TREE)}
    done = subprocess.run(
        ["bash", "-c", site.sql_line], env=outside, cwd="/", capture_output=True, text=True, check=False
    )
    assert "Cloudflare" in done.stdout, done.stderr


def test_assets_carry_dates_ids_and_counts(site: RunningSite, scan: AirflowScan) -> None:
    events = site.ask("GET", "/assets/events", params={"limit": 100})["asset_events"]
    by_asset: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        by_asset.setdefault(event["name"], []).append(event["extra"])
    (targets,) = by_asset["targets"]
    assert targets["rows"] == 459 and "202408" in targets["id"] and targets["date"].startswith("20")
    (as_data,) = by_asset["as_data"]
    assert as_data["rows"] == 35 and len(as_data["id"]) == 16
    loaded = {extra["vantage"]: extra["rows"] for extra in by_asset["quic_probe"] if extra["run"] == scan.run}
    assert set(loaded) == set(VANTAGES) and all(rows["quic_probe"] > 400 for rows in loaded.values())


def test_a_browser_sees_the_run(site: RunningSite, scan: AirflowScan, browser: Browser) -> None:
    browser.open(f"{site.page}/auth/login")
    token = site.ask("GET", "/version")  # the REST interface answers, too
    assert token["version"] == "3.3.2"
    driver = browser.driver
    wait_for(lambda: "password" in driver.page_source, 30, lambda: driver.page_source[:2000])
    driver.find_element("css selector", 'input[name="username"]').send_keys("admin")
    driver.find_element("css selector", 'input[name="password"]').send_keys(site.password)
    driver.find_element("css selector", 'button[type="submit"]').click()
    wait_for(lambda: "login" not in driver.current_url, 30, lambda: driver.current_url)
    view = browser.open(f"{site.page}/dags/quic_scan/runs/{scan.dag_run}")
    wait_for(
        lambda: "los_angeles" in browser.script("return document.body.innerText"),
        60,
        lambda: str(browser.script("return document.body.innerText"))[:2000],
    )
    assert "quic_scan" in browser.script("return document.body.innerText")
    assert all(site.page in address for address in view.requests if address.startswith("http"))
    driver.get("about:blank")  # the page polls every three seconds, which would slow the next tests down


def test_no_secret_is_in_a_log_or_a_command_line(site: RunningSite, scan: AirflowScan) -> None:
    del scan
    secrets = site.folder / "secrets"
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    values = {site.password.encode()}
    for path in secrets.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
        if path.suffix != ".json" and path.name != "store_url":
            values.add(path.read_bytes().strip())
    looked = 0
    # The site runs: folders and files are removed meanwhile.
    paths = (Path(folder) / name for folder, _, names in os.walk(site.folder) for name in names)
    for path in (p for p in paths if not p.is_relative_to(secrets)):
        if path.suffix in (".log", ".json", ".toml", ".conf", ".cfg", ".html"):
            content = b""
            with suppress(FileNotFoundError):
                content = path.read_bytes()
                looked += 1
            assert not [value for value in values if value in content], path
    assert looked > 50
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes()
        except OSError:
            continue
        assert not [value for value in values if value in line], entry


def test_vantage_points_reach_neither_the_page_nor_its_rest_interface(site: RunningSite) -> None:
    offered = {"/": 404, "/api/v2/dags": 404, "/auth/token": 404, "/edge_worker/v1/health": 200}
    script = (
        "import requests\n"
        f"for path in {list(offered)!r}:\n"
        "    answer = requests.get('https://198.18.0.10' + path, timeout=60, allow_redirects=False)\n"
        "    print(answer.status_code)"
    )
    done = site.execute(KILLED, sys.executable, "-c", script)
    assert done.returncode == 0, done.stderr
    assert [int(line) for line in done.stdout.split()] == list(offered.values())
    assert site.ask("GET", "/dags")["total_entries"] >= 3  # they exist nevertheless


OF_A_THIEF = "of_a_thief"
# Paths of the tasks' interface that nginx does not pass on.
CLOSED = (
    "variables/keys",
    "variables/a",
    "connections/a",
    "connection-tests/a/connection",
    "dag-runs/count",
    "store/ti/a/b",
    "hitlDetails/a",
    "assets/by-name?name=targets",
    "xcoms/../variables/keys",
    "xcoms/%2e%2e/variables/keys",
    "",
)


class TestAStolenSecretOfAWorker:
    """docs/site/workers-secret.md."""

    def test_it_permits_what_the_documentation_lists(self, site: RunningSite, stolen: Stolen) -> None:
        """Its first table. The fixture shows the first line."""
        task = stolen.job["command"]["ti"]["id"]
        now = datetime.now(UTC).isoformat()
        runs = {"state": "running", "hostname": "h", "unixname": "u", "pid": 1, "start_date": now}
        # The later scans of this module ignore the second one.
        published = {
            "quic_probe": {"vantage": OF_A_THIEF, "run": "none"},
            "targets": {"vantage": OF_A_THIEF, "run": stolen.run},
        }
        assets = {name: {"name": name, "uri": name} for name in published}
        done = {
            "state": "success",
            "end_date": now,
            "task_outlets": [asset | {"type": "Asset"} for asset in assets.values()],
            "outlet_events": [
                {"dest_asset_key": assets[name], "extra": extra} for name, extra in published.items()
            ],
        }
        log = {"log_chunk_time": now, "log_chunk_data": "from a thief", "task_instance_id": task}
        xcom = f"xcoms/quic_scan/{stolen.dag_run}"
        renewed = stolen_secret.RENEWED
        # At once: a task without heartbeats counts as dead.
        answers = send(
            site,
            KILLED,
            execution("PATCH", f"task-instances/{task}/run", stolen.token, body=runs),
            # With the token of the task: other tasks' XComs, its own state, and events of any asset.
            execution("GET", f"{xcom}/open/return_value", renewed),
            execution("POST", f"{xcom}/report/return_value", renewed, body=OF_A_THIEF),
            execution("PATCH", f"task-instances/{task}/state", renewed, body=done),
            edge("PATCH", f"jobs/state/{stolen.key}/success", {"task_instance_id": task}),
            edge("POST", f"logs/push/{stolen.key}", log),
            inputs("GET", f"runs/{stolen.run}/inputs", stolen.run),
            inputs("GET", "optout?nonce=a", "(optout)"),
        )
        assert [answer.status for answer in answers] == [200, 200, 201, 204, 200, 200, 200, 200], answers
        assert stolen.run in str(answers[1].body["value"])
        assert site.xcom("quic_scan", stolen.dag_run, "report") == OF_A_THIEF
        assert site.tasks("quic_scan", stolen.dag_run)[stolen.job["task_id"]]["state"] == "success"
        events = site.ask("GET", "/assets/events", params={"limit": 100, "order_by": "-timestamp"})
        of_thief = [e for e in events["asset_events"] if e["extra"].get("vantage") == OF_A_THIEF]
        assert {event["name"] for event in of_thief} == set(published)
        # The centre enters the DAG of the token.
        assert {event["source_dag_id"] for event in of_thief} == {"quic_scan"}
        assert answers[6].body["manifest"]["id"] == stolen.run and isinstance(
            answers[7].body["entries"], list
        )

    def test_it_permits_nothing_else(self, site: RunningSite, stolen: Stolen) -> None:
        """It signs no token of a task and no login, and no task's token reads variables or starts a run."""
        task, another = stolen.job["command"]["ti"]["id"], "01900000-0000-7000-8000-000000000000"
        key = (site.folder / "secrets" / "jwt_private_key").read_text()
        header = jwt.get_unverified_header(stolen.token)
        right = partial(signed, key=key, algorithm="EdDSA", kid=header["kid"])
        of_task = right({"aud": stolen_secret.TASK, "sub": task, "scope": "execution"})
        xcom = f"xcoms/quic_scan/{stolen.dag_run}/open/return_value"
        failed = {"state": "failed", "end_date": datetime.now(UTC).isoformat()}
        start = f"dag-runs/quic_scan/{OF_A_THIEF}"
        offered = f"runs/{stolen.run}/inputs"
        elsewhere = {"aud": stolen_secret.EDGE, "method": "jobs/fetch/hamburg"}
        cases: list[tuple[Request, int]] = [
            # The centre's signature is accepted here, also after the task has ended, and the secret's is not.
            (execution("GET", xcom, of_task), 200),
            (execution("GET", xcom, task=task), 403),
            (execution("PATCH", f"task-instances/{task}/state", task=task, body=failed), 403),
            # The token of a task is not another task's.
            (execution("PATCH", f"task-instances/{another}/state", of_task, body=failed), 403),
            *((execution("GET", path, of_task), 404) for path in CLOSED),
            (execution("PUT", "variables/a", of_task, body={"value": "b"}), 404),
            (execution("POST", start, of_task, body={"logical_date": None}), 404),
            (execution("POST", f"{start}/clear", of_task), 404),
            # A token for one path of the workers' interface is for no other.
            (Request("GET", f"/edge_worker/v1/logs/logfile_path/{stolen.key}", elsewhere), 403),
            # There are no uploads at the centre, and no files but a run's inputs.
            *((inputs(method, offered, stolen.run), 405) for method in ("PUT", "POST", "DELETE")),
            (inputs("GET", f"{offered}/%2e%2e%2f%2e%2e%2fetc%2fpasswd", stolen.run), 404),
            (inputs("GET", f"{offered}/los_angeles/1/probe/report.json", stolen.run), 404),
            (inputs("GET", offered, "another run"), 403),
        ]
        answers = send(site, KILLED, *(request for request, _ in cases))
        for (request, status), answer in zip(cases, answers, strict=True):
            assert answer.status == status, (request, answer)
        # From the centre's loopback, where the REST interface listens.
        claims = {"aud": stolen_secret.PAGE, "sub": "admin", "role": "admin"}
        secret = (site.folder / "secrets" / "jwt_secret").read_text()
        statuses = {}
        for name, token in (("centre", right(claims)), ("worker", signed(claims, secret))):
            headers = {"Authorization": f"Bearer {token}"}
            answer_here = requests.get(f"{site.page}/api/v2/dags", headers=headers, timeout=120)
            statuses[name] = answer_here.status_code
        assert statuses == {"centre": 200, "worker": 403}
        assert OF_A_THIEF not in {run["dag_run_id"] for run in runs_of(site, "quic_scan")}
        assert site.ask("GET", "/variables")["total_entries"] == 0


def test_metrics_of_the_centre_have_what_airflow_says_of_itself(site: RunningSite) -> None:
    def measured() -> dict[tuple[str, ...], float]:
        families = machine_metrics.metrics(machine_metrics.MachineParts(airflow=site.page))
        return {(f.name, *sample.labels.values()): sample.value for f in families for sample in f.samples}

    healthy, beat = "firstflight_airflow_healthy", "firstflight_airflow_heartbeat_timestamp_seconds"
    # Killed parts of the site may be starting again.
    wait_for(lambda: measured().get((healthy, "scheduler")) == 1, 300, lambda: str(measured()))
    found = measured()
    assert found["firstflight_airflow_up",] == found[healthy, "metadatabase"] == 1
    assert found[healthy, "dag_processor"] == 1 and (healthy, "triggerer") not in found
    assert abs(time.time() - found[beat, "scheduler"]) < 600


@pytest.mark.usefixtures("scan")
def test_an_opt_out_at_the_centre_blocks_at_each_vantage_point(site: RunningSite) -> None:
    """The test runs the printed command line. No other test uses this name."""
    name = "opted-out.example"
    (line,) = re.findall(r"^opt-out   (.*) ENTRY\.\.\.$", site.log_file.read_text(), re.MULTILINE)
    subprocess.run(["bash", "-c", f"{line} {name}"], check=True, cwd="/", capture_output=True)
    for place in VANTAGES:
        copy = site.folder / place / "optout" / "list"
        wait_for(partial(_has_line, copy, f"*.{name}"), 30, copy.read_text)
        status = site.execute(place, *OPTOUT_STATUS)
        assert status.returncode == 0 and " entries  confirmed " in status.stdout, status
    targets = site.folder / "opted_out.csv"
    (row,) = site.rows("SELECT ip FROM quic_probe WHERE outcome = 'iack' AND ip LIKE '198.18.%' LIMIT 1")
    targets.write_text(f"ip,domain,port\n{row['ip']},{name},\n{row['ip']},kept.example,\n")
    probe = ("probe", "--targets", str(targets), "--allow-net", "198.18.0.0/15", "--format", "jsonl")
    rows = [json.loads(row) for row in site.firstflight(KILLED, *probe).splitlines()]
    outcomes = {row["domain"]: row["outcome"] for row in rows}
    assert outcomes[name] == "blocked" and outcomes["kept.example"] != "blocked", outcomes


def _has_line(path: Path, line: str) -> bool:
    return line in path.read_text().splitlines()


def test_a_crawl_publishes_the_files_that_it_found(site: RunningSite, crawled: str) -> None:
    events = site.ask("GET", "/assets/events", params={"limit": 100})["asset_events"]
    (extra,) = (event["extra"] for event in events if event["name"] == "download_targets")
    assert (extra["run"], extra["rows"]) == (crawled, len(FILES))
    assert extra["counts"] == {"found": len(FILES)}
    rows = site.rows(f"SELECT domain, outcome, url FROM download_file WHERE run = '{crawled}' ORDER BY ALL")
    assert [(row["domain"], row["outcome"]) for row in rows] == [(name, "found") for name in sorted(FILES)]
    (row,) = site.rows(f"SELECT state FROM run WHERE run = '{crawled}'")
    assert row["state"] == "done"


def test_downloads_start_by_themselves_after_a_crawl(site: RunningSite, crawled: str) -> None:
    wait_for(lambda: bool(runs_of(site, "downloads")), 60, lambda: runs_of(site, "downloads"))
    (started,) = runs_of(site, "downloads")
    dag_run = str(started["dag_run_id"])
    assert started["run_type"] == "asset_triggered"
    assert site.run_to_end("downloads", dag_run, 180) == "success", site.describe("downloads", dag_run)
    run = site.xcom("downloads", dag_run, "open")
    taken = json.loads((site.folder / "centre" / "runs" / run / "manifest.json").read_text())["inputs"]
    assert (taken["crawl"]["run"], taken["targets"]["run"]) == (crawled, crawled)
    truth = {line["domain"]: line for line in map(json.loads, _truth(site).splitlines())}
    rows = site.rows(
        "SELECT vantage, domain, set, outcome, worker, ip FROM download "
        f"WHERE run = '{run}' ORDER BY vantage, domain, toString(set)"
    )
    sets = sorted(truth[FILES[0]]["download"])
    assert [(row["vantage"], row["domain"], row["set"]) for row in rows] == list(
        product(sorted(VANTAGES), sorted(FILES), sets)
    )
    for row in rows:
        wanted = truth[row["domain"]]
        assert row["outcome"] == wanted["download"][row["set"]]["outcome"], row
        assert (row["worker"], row["ip"]) == (row["vantage"], wanted["ip"])
    # The crawl's rows are there once, and are the crawl's.
    assert site.rows("SELECT run, count() AS n FROM download_file GROUP BY run") == [
        {"run": crawled, "n": len(FILES)}
    ]
    report = site.xcom("downloads", dag_run, "report")
    assert report["missing"] == []
    assert report["rows"] == dict.fromkeys(VANTAGES, len(FILES) * len(sets))
    assert "Cloudflare" in site.log("downloads", dag_run, "report")


def _truth(site: RunningSite) -> str:
    return site.firstflight("centre", "lab", "truth", "--downloads")


@pytest.mark.usefixtures("first_tries")
def test_a_survey_asks_each_name_from_each_vantage_point(site: RunningSite) -> None:
    (site.folder / "downloads.txt").write_text("".join(f"{name}\n" for name in FILES))
    site.pause("tcp_options", False)
    wait_for(lambda: bool(runs_of(site, "tcp_options")), 60, lambda: runs_of(site, "tcp_options"))
    (started,) = runs_of(site, "tcp_options")
    dag_run = str(started["dag_run_id"])
    assert site.run_to_end("tcp_options", dag_run, 120) == "success", site.describe("tcp_options", dag_run)
    site.pause("tcp_options", True)
    run = site.xcom("tcp_options", dag_run, "open")
    rows = site.rows(
        f"SELECT vantage, domain, outcome, sack FROM tcp_option WHERE run = '{run}' ORDER BY ALL"
    )
    assert [(row["vantage"], row["domain"]) for row in rows] == list(product(sorted(VANTAGES), sorted(FILES)))
    assert all(row["sack"] == (row["domain"] != "no-sack.mirrors.test") for row in rows)
    report = site.xcom("tcp_options", dag_run, "report")
    assert report["missing"] == [] and report["rows"] == dict.fromkeys(VANTAGES, len(FILES))


@pytest.mark.usefixtures("watch_dag")
def test_pause_centre_and_vantage_point_fail_while_two_runs_of_a_day_overlap(site: RunningSite) -> None:
    """The DAG is paused in the middle, the centre is killed with its database, the store refuses logins,
    and a vantage point is down."""
    site.pause("quic_scan", False)
    place, down = "los_angeles", KILLED
    waiting = trigger_watch(site, down, begins_after_s=3600)

    def is_watching() -> bool:
        return bool(site.tasks("cdn_watch", waiting)[f"{down}.watch"]["state"] == "running")

    wait_for(is_watching, 120, lambda: site.describe("cdn_watch", waiting))
    site.maintenance(down, begins=True)
    idle = site.folder / "logs" / f"worker-{down}.log"
    wait_for(lambda: "Maintenance mode requested!" in idle.read_text(), 30, idle.read_text)
    first = site.trigger("quic_scan", vantage_points=[place], rate=30)
    second = site.trigger("quic_scan", vantage_points=[place, down], report_after_minutes=1)
    probe = f"{place}.repetition.probe#0"
    segments = f"runs/*/{place}/1/probe/segments/*.arrow"
    before = len(list((site.folder / place).glob(segments)))

    def probing() -> bool:
        return len(list((site.folder / place).glob(segments))) >= before + 2

    wait_for(probing, 120, lambda: site.describe("quic_scan", first))
    # A worker in maintenance only accepts no further task: its watch continues.
    assert is_watching(), site.describe("cdn_watch", waiting)
    engine = halt_prober(site, place, first)
    site.pause("quic_scan", True)
    go_on_when_interrupted([engine])
    wait_for(
        lambda: site.tasks("quic_scan", first)[probe]["state"] == "up_for_reschedule",
        30,
        lambda: site.describe("quic_scan", first),
    )
    log = partial(site.log, "quic_scan", first, f"{place}.repetition.probe", number=0)
    wait_for(lambda: "the DAG is paused: the stage stopped gracefully" in log(), 20, log)

    site.kill_central("api-server", "scheduler", "dag-processor", "database")
    wait_for(lambda: _answers(site), 120, lambda: "the api-server has not restarted")
    store_url = site.folder / "secrets" / "store_url"
    right = store_url.read_text()
    store_url.write_text(right.replace("://firstflight:", "://firstflight:no"))
    site.pause("quic_scan", False)
    load = f"{place}.repetition.load"
    log = partial(site.log, "quic_scan", first, load, number=0)
    wait_for(
        lambda: site.tasks("quic_scan", first)[f"{load}#0"]["state"] == "up_for_retry",
        180,
        lambda: site.describe("quic_scan", first),
    )
    # The worker uploads its log in pieces, and the last piece after the task's state.
    wait_for(lambda: "198.18.0.10:9440/firstflight refuses the user or the password" in log(), 20, log)
    store_url.write_text(right)
    assert site.run_to_end("quic_scan", first, 300) == "success", site.describe("quic_scan", first)
    # The vantage point that is down does not delay the others, and the report names it.
    reported = lambda: site.tasks("quic_scan", second)["report"]["state"] == "success"  # noqa: E731
    wait_for(reported, 300, lambda: site.describe("quic_scan", second))
    report = site.xcom("quic_scan", second, "report")
    assert f"{down}, repetition 1" in report["missing"] and report["rows"][down] == 0
    site.maintenance(down, begins=False)
    assert site.run_to_end("quic_scan", second, 300) == "success", site.describe("quic_scan", second)
    assert site.xcom("quic_scan", second, "late_report")["missing"] == []
    # The watch waited for its period all the time, or was tried again.
    wait_for(is_watching, 120, lambda: site.describe("cdn_watch", waiting))
    site.mark_failed("cdn_watch", waiting)

    runs = {}
    for dag_run, vantages in ((first, [place]), (second, [down, place])):
        run = runs[dag_run] = str(site.xcom("quic_scan", dag_run, "open"))
        select = "SELECT vantage, count() AS n, uniqExact(domain, ip) AS different FROM quic_probe "
        rows = site.rows(f"{select} WHERE run = '{run}' GROUP BY vantage ORDER BY vantage")
        assert [row["vantage"] for row in rows] == vantages
        assert all(row["n"] == row["different"] > 400 for row in rows)
        tasks = site.tasks("quic_scan", dag_run)
        assert (tasks[f"{down}.fetch_inputs"]["state"] == "skipped") == (down not in vantages)
        assert all(task["state"] in ("success", "skipped") for task in tasks.values())
    # Only one scan at a time sends from a vantage point, for any number of runs and turns.
    # Each process in a scan has a separate capture.
    select = "SELECT min(sent_at) AS a, max(sent_at) AS b FROM quic_probe WHERE sent_at IS NOT NULL"
    per_process = f"{select} AND vantage = '{place}' AND run = '{{}}' GROUP BY capture_file"
    found = [site.rows(per_process.format(run)) for run in runs.values()]
    sending = [[(row["a"], row["b"]) for row in rows] for rows in found]
    assert all(sending)
    assert [(a, b) for a, b in product(*sending) if a[0] <= b[1] and b[0] <= a[1]] == []


def _answers(site: RunningSite) -> bool:
    try:
        site.ask("GET", "/version")
    except (requests.ConnectionError, requests.Timeout):
        return False
    return True


def test_a_worker_with_a_wrong_clock_says_so_and_takes_no_task(site: RunningSite) -> None:
    worker = (sys.executable, "-P", "-m", "orchestration.airflow.worker", "--vantage", KILLED)
    began = time.monotonic()
    done = site.execute(KILLED, "faketime", "-f", "+180s", *worker)
    took = time.monotonic() - began
    assert done.returncode == 1
    found = re.match(
        r"worker hamburg: this machine's clock is (\d+\.\d) s ahead of the centre's", done.stderr
    )
    # To the second of the answer's date, by which it may be late, and half of the request's duration.
    assert found and 179 - took / 2 <= float(found[1]) <= 182 + took / 2, done.stderr
    assert done.stderr.count("\n") == 1


def test_a_killed_site_restarts_with_its_runs(site: RunningSite) -> None:
    """Restart as after a power failure in the middle of a scan: the same folder, a new lab."""
    dag_run = site.trigger("quic_scan", vantage_points=[KILLED], families=[4], rate=30)
    segments = f"runs/*/{KILLED}/1/probe/segments/*.arrow"
    before = len(list((site.folder / KILLED).glob(segments)))
    wait_for(
        lambda: len(list((site.folder / KILLED).glob(segments))) >= before + 2,
        90,
        lambda: site.describe("quic_scan", dag_run),
    )
    halt_prober(site, KILLED, dag_run)
    ended = {run["dag_run_id"]: run["state"] for dag in DAILY for run in runs_of(site, dag)}
    assert "success" in ended.values()
    site.kill()
    site.start()
    assert {run["dag_run_id"]: run["state"] for dag in DAILY for run in runs_of(site, dag)} == ended
    assert site.run_to_end("quic_scan", dag_run, 240) == "success", site.describe("quic_scan", dag_run)
    run = site.xcom("quic_scan", dag_run, "open")
    targets = (site.folder / KILLED / "runs" / run / KILLED / "1/probe/targets.csv").read_text().splitlines()
    select = "SELECT count() AS n, uniqExact(domain, ip) AS different FROM quic_probe "
    (row,) = site.rows(f"{select} WHERE run = '{run}'")
    assert row["n"] == row["different"] == len(targets) - 1 > 200
