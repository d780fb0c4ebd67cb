"""`firstflight uploads metrics`: a vantage point's measurements and pending uploads, read as OpenMetrics."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from firstflight import capture_files
from firstflight.run.run import Run
from firstflight.system import files
from firstflight.system.network import exporter
from firstflight.system.network.clock import Offset
from orchestration.site import pending_uploads
from orchestration.site.metrics import metrics
from store.clickhouse.counts import ServerCounts
from tests.airflow.test_pending_uploads import FIRSTFLIGHT, measured
from tests.airflow.test_pending_uploads import place as place

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
LABELS = ("vantage", "stage", "state", "outcome", "rate")
Samples = dict[str, dict[tuple[str, ...], float]]


def samples(page: str) -> Samples:
    """Return metric name -> label values -> value."""
    found: Samples = defaultdict(dict)
    for family in text_string_to_metric_families(page):  # type: ignore[no-untyped-call]
        for sample in family.samples:
            labels = tuple(sample.labels[name] for name in LABELS if name in sample.labels)
            assert labels not in found[sample.name] and len(labels) == len(sample.labels), sample
            found[sample.name][labels] = sample.value
    return found


def now() -> Samples:
    """Return the metrics of this folder of runs."""
    return samples(exporter.text(metrics()).decode())


def summary(run: Run, sent: int, resumed: int, duration_s: float) -> None:
    """Write the prober's summary with the keys that the metrics use."""
    path = run.layout.stage("probe", run.key("hamburg", 1)) / "summary.json"
    files.write_json(path, {"rate": 150.0, "duration_s": duration_s, "sent": sent, "resumed": resumed})


def test_an_empty_folder_has_no_times(place: Path) -> None:
    del place
    found = now()
    assert found == {
        "firstflight_uploads": {("loaded",): 0, ("pending",): 0},
        "firstflight_uploads_failed": {(): 0},
    }


def test_pending_and_measured_stages_are_counted(place: Path) -> None:
    del place
    first = measured("20261120T060000Z-aaaaaa")
    report = first.reports()[0]
    found = now()
    assert found["firstflight_uploads"] == {("loaded",): 0, ("pending",): 1}
    assert report.ended_at is not None
    waits = found["firstflight_oldest_pending_upload_timestamp_seconds"][()]
    assert waits == pytest.approx(report.ended_at.timestamp(), abs=1e-3)
    assert found["firstflight_newest_measured_timestamp_seconds"].keys() == {("hamburg",)}
    assert found["firstflight_stage_end_timestamp_seconds"].keys() == {("hamburg", "probe")}
    # Not counted by the stage, or not measured: missing, not 0.
    for name in ("stage_rows", "stage_targets_per_second", "capture_lost_packets", "clock_offset_seconds"):
        assert f"firstflight_{name}" not in found

    assert pending_uploads.load_pending() == (1, [])
    found = now()
    assert found["firstflight_uploads"] == {("loaded",): 1, ("pending",): 0}
    assert "firstflight_oldest_pending_upload_timestamp_seconds" not in found
    assert found["firstflight_stage_rows"]["hamburg", "load"] == 5
    assert found["firstflight_stage_records"]["hamburg", "load", "quic_probe"] == 5


def test_an_unavailable_store_is_a_failed_upload(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del place
    measured("20261120T060000Z-aaaaaa")
    monkeypatch.setenv("FIRSTFLIGHT_STORE", "clickhouse://x:y@127.0.0.1:1/firstflight")
    assert pending_uploads.load_pending()[1]
    found = now()
    assert found["firstflight_uploads_failed"] == {(): 1}
    assert found["firstflight_stage_failed"] == {("hamburg", "probe"): 0, ("hamburg", "load"): 1}


def test_rates_losses_and_clock_are_of_the_newest_run(place: Path) -> None:
    del place
    older, newer = measured("20261120T060000Z-aaaaaa"), measured("20261121T060000Z-bbbbbb")
    summary(older, 1000, 0, 1.0)
    summary(newer, 100, 20, 2.0)
    key = newer.key("hamburg", 1)
    files.write_json(
        newer.layout.clock(key),
        Offset(offset_us=-1500, uncertainty_us=10, reference="x", compared_at_ns=1).model_dump(),
    )
    entry = {"file": "probe.pcap", "interface": "lo", "filter": "udp", "snaplen": 100, "started_ns": 1}
    folder = newer.layout.stage("capture", key)
    folder.mkdir(parents=True)
    lost = [
        {"dropped_by_kernel": 3, "dropped_by_interface": 4},
        {"dropped_by_kernel": 0, "dropped_by_interface": 1},
    ]
    files.write_json(folder / "capture.json", {"captures": [entry | counts for counts in lost]})
    assert len(capture_files.records(folder)) == 2
    found = now()
    assert found["firstflight_stage_targets_per_second"] == {
        ("hamburg", "probe", "limit"): 150,
        ("hamburg", "probe", "achieved"): 40,
    }
    assert found["firstflight_capture_lost_packets"] == {("hamburg", "probe"): 8}
    assert found["firstflight_clock_offset_seconds"] == {("hamburg", "probe"): -0.0015}
    # A tcpdump that was killed has not counted.
    files.write_json(folder / "capture.json", {"captures": [entry | lost[0], entry]})
    assert "firstflight_capture_lost_packets" not in now()


def test_outcomes_of_all_shards_of_the_newest_repetition(place: Path) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa")
    with run.stage("probe", run.key("hamburg", 1)) as report:
        report.counts, report.rows_out = {"iack": 2, "timeout": 1}, 3
    assert now()["firstflight_stage_records"] == {
        ("hamburg", "probe", "iack"): 2,
        ("hamburg", "probe", "timeout"): 1,
    }
    with run.stage("probe", run.key("hamburg", 2)) as report:
        report.counts = {"iack": 5}
        assert now()["firstflight_stage_running"] == {("hamburg", "probe"): 1}
        assert "firstflight_stage_rows" not in now()
    assert now()["firstflight_stage_records"] == {("hamburg", "probe", "iack"): 5}


@contextmanager
def served() -> Iterator[str]:
    """The address of the command's metrics."""
    command = [*FIRSTFLIGHT, "uploads", "metrics", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.match(r"metrics at (\S+)$", line)
        assert found, line
        yield found[1]
        process.terminate()
        assert process.wait(60) == 0


def test_the_command_serves_them_and_says_what_is_broken(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measured("20261120T060000Z-aaaaaa")
    with served() as url:
        answer = requests.get(url, timeout=60)
        assert answer.status_code == 200 and samples(answer.text)["firstflight_uploads"] == {
            ("loaded",): 0,
            ("pending",): 1,
        }
    monkeypatch.delenv("FIRSTFLIGHT_STORE")
    monkeypatch.setenv("FIRSTFLIGHT_STORE_FILE", str(place / "nowhere"))
    with served() as url:
        answer = requests.get(url, timeout=60)
        assert answer.status_code == 503 and answer.text.count("\n") == 1
        assert str(place / "nowhere") in answer.text and run.id not in answer.text


@pytest.mark.parametrize(
    "name", ["probe/report.json", "probe/summary.json", "clock.json", "capture/capture.json"]
)
def test_a_broken_file_affects_only_its_run(place: Path, name: str) -> None:
    del place
    broken, intact = measured("20261120T060000Z-aaaaaa"), measured("20261121T060000Z-bbbbbb", "los_angeles")
    path = broken.layout.folder(broken.key("hamburg", 1)) / name
    path.parent.mkdir(exist_ok=True)
    for content in ("", "{"):
        path.write_text(content)
        found = now()
        assert found["firstflight_uploads_failed"] == {(): 1}
        assert list(found["firstflight_stage_failed"]) == [("los_angeles", "probe")]
    assert intact.id != broken.id


def test_a_run_is_broken_once_however_many_stages_it_has(place: Path) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa")
    key = run.key("hamburg", 1)
    with run.stage("resolve", key):
        pass
    run.layout.clock(key).write_text("{")
    found = now()
    assert found["firstflight_uploads_failed"] == {(): 1} and "firstflight_stage_failed" not in found


RULES = [
    rule
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    if group["name"] in ("firstflight-vantage-points", "firstflight-store")
    for rule in group["rules"]
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_rules_are_about_metrics_that_exist(place: Path, rule: dict[str, str]) -> None:
    del place
    run = measured("20261120T060000Z-aaaaaa")
    with run.stage("probe", run.key("hamburg", 1)) as report:
        report.counts, report.rows_out = {"iack": 2}, 2
    summary(run, 2, 0, 1.0)
    text = exporter.text([*metrics(), *ServerCounts().metrics()]).decode()
    families = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    named = {name.removesuffix("_total") for name in re.findall(r"firstflight_\w+", rule["expr"])}
    assert named and named <= families
    assert set(rule) == {"alert", "expr", "for", "annotations"}
