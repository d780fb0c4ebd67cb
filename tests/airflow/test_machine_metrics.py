"""`firstflight site metrics`: disks, certificates, opt-out list, backups, Airflow, as OpenMetrics.

tests/airflow/test_backup.py asks a real PostgreSQL, tests/airflow/test_site.py a real API server of Airflow.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests
import yaml
from cryptography import x509
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from firstflight.egress import current
from firstflight.errors import InputError
from firstflight.system.network import exporter
from lab.hosts import certificates
from orchestration.site import backup, machine_metrics
from orchestration.site.machine_metrics import MachineParts
from tests.airflow.test_pending_uploads import FIRSTFLIGHT

ALERTS = Path(__file__).parents[2] / "deploy" / "prometheus" / "alerts.yaml"
Samples = dict[tuple[str, ...], float]


def now(machine: MachineParts) -> Samples:
    """Return (metric, values of its labels) -> value."""
    text = exporter.text(machine_metrics.metrics(machine)).decode()
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
    return {
        (sample.name.removeprefix("firstflight_"), *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_disk_has_the_bytes_that_df_shows(tmp_path: Path) -> None:
    found = now(MachineParts(disks=[tmp_path]))
    shown = subprocess.run(
        ["df", "-B1", "--output=size", tmp_path], capture_output=True, text=True, check=True
    )
    assert found["disk_size_bytes", str(tmp_path)] == int(shown.stdout.split()[1])
    assert 0 < found["disk_free_bytes", str(tmp_path)] < found["disk_size_bytes", str(tmp_path)]
    with pytest.raises(InputError, match=r"none cannot be read.*correct --disk"):
        now(MachineParts(disks=[tmp_path / "none"]))


def test_a_chain_expires_when_its_first_certificate_does(tmp_path: Path) -> None:
    issued = certificates.issue(certificates.make_authority(tmp_path), "machine", ["127.0.0.1"])
    chain = x509.load_pem_x509_certificates(issued.chain.read_bytes())
    found = now(MachineParts(certificates=[issued.chain]))
    end = found["certificate_end_timestamp_seconds", str(issued.chain)]
    assert end == min(certificate.not_valid_after_utc for certificate in chain).timestamp()
    (tmp_path / "broken.pem").write_text("no certificate")
    with pytest.raises(InputError, match=r"broken.pem is no certificate"):
        now(MachineParts(certificates=[tmp_path / "broken.pem"]))


def test_an_unconfirmed_list_is_a_metric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(current.VARIABLE, raising=False)
    assert now(MachineParts()) == {}
    copy = tmp_path / "list"
    monkeypatch.setenv(current.VARIABLE, f"{current.FOLLOWED}{copy}")
    assert now(MachineParts()) == {("optout_confirmed",): 0}
    current.confirmed_file(copy).write_text(current.confirmation())
    found = now(MachineParts())
    assert found["optout_confirmed",] == 1 and 0 <= found["optout_confirmation_age_seconds",] < 60
    old = json.loads(current.confirmation())
    old["at_ns"] -= 61 * 10**9
    current.confirmed_file(copy).write_text(json.dumps(old))
    found = now(MachineParts())
    assert found["optout_confirmed",] == 0 and found["optout_confirmation_age_seconds",] >= 61


def test_a_backup_counts_once_it_was_restored(tmp_path: Path) -> None:
    machine = MachineParts(backups=tmp_path / "backups", parts=["settings", "airflow"])
    assert now(machine) == {("backups", "settings"): 0, ("backups", "airflow"): 0}
    secret = tmp_path / "secrets" / "key"
    secret.parent.mkdir()
    secret.write_text("secret")
    began = datetime.now(UTC) - timedelta(seconds=1)
    umask = os.umask(0o022)
    os.umask(umask)

    def make(check: Callable[[Path], str]) -> str:
        write = lambda place: backup.write_settings(place, [secret.parent])  # noqa: E731
        return backup.make(tmp_path / "backups", "settings", write, check, keep=2)

    def damaged(place: Path) -> str:
        archive = place / backup.ARCHIVE
        archive.write_bytes(archive.read_bytes().replace(b"secret\0", b"sEcret\0"))
        return backup.check_settings(place, [secret.parent])

    with pytest.raises(InputError, match="differs from"):
        make(damaged)
    assert now(machine)["backups", "settings"] == 0
    assert make(lambda place: backup.check_settings(place, [secret.parent])).endswith("1 files")
    found = now(machine)
    assert found["backups", "settings"] == 1 and found["backup_bytes", "settings"] > 0
    assert began.timestamp() <= found["backup_timestamp_seconds", "settings"] <= datetime.now(UTC).timestamp()
    assert ("backup_timestamp_seconds", "airflow") not in found
    # Unfinished backups and the oldest finished ones are removed.
    (old,) = backup.backups(tmp_path / "backups", "settings")
    for days in (3, 4):
        old.with_name(f"{backup.started_at(old) - timedelta(days=days):%Y%m%dT%H%M%SZ}").mkdir()
    day_before = old.with_name(f"{backup.started_at(old) - timedelta(days=1):%Y%m%dT%H%M%SZ}")
    old.with_suffix(".bytes").rename(day_before.with_suffix(".bytes"))
    old.rename(day_before)
    make(lambda place: backup.check_settings(place, [secret.parent]))
    assert len(backup.backups(tmp_path / "backups", "settings")) == 2
    # Other users can read the sizes of backups, and nothing else.
    kept = list((tmp_path / "backups" / "settings").iterdir())
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in kept}
    assert len(kept) == 4 and modes == {"": 0o700, ".bytes": 0o644}
    assert os.umask(umask) == umask, "the umask must be restored"


ANSWER = {
    "metadatabase": {"status": "healthy"},
    "scheduler": {"status": "unhealthy", "latest_scheduler_heartbeat": "2026-11-24T01:02:03.5+00:00"},
    "triggerer": {"status": None, "latest_triggerer_heartbeat": None},
    "dag_processor": {"status": "healthy", "latest_dag_processor_heartbeat": "2026-11-24T01:02:04+00:00"},
}


@pytest.fixture
def api_server() -> Iterator[str]:
    """A server that answers like Airflow."""

    class HealthHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == machine_metrics.HEALTH else 404)
            self.end_headers()
            self.wfile.write(json.dumps(ANSWER).encode())

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), HealthHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_airflows_components(api_server: str) -> None:
    assert now(MachineParts(airflow=api_server)) == {
        ("airflow_up",): 1,
        ("airflow_healthy", "metadatabase"): 1,
        ("airflow_healthy", "scheduler"): 0,
        ("airflow_healthy", "dag_processor"): 1,
        ("airflow_heartbeat_timestamp_seconds", "scheduler"): datetime(
            2026, 11, 24, 1, 2, 3, 500_000, UTC
        ).timestamp(),
        ("airflow_heartbeat_timestamp_seconds", "dag_processor"): datetime(
            2026, 11, 24, 1, 2, 4, 0, UTC
        ).timestamp(),
    }
    assert now(MachineParts(airflow=f"{api_server}/elsewhere")) == {("airflow_up",): 0}
    assert now(MachineParts(airflow="http://127.0.0.1:1")) == {("airflow_up",): 0}


RULES = [
    rule
    for group in yaml.safe_load(ALERTS.read_text())["groups"]
    if group["name"] == "firstflight-machines"
    for rule in group["rules"]
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_rules_are_about_metrics_that_exist(rule: dict[str, str]) -> None:
    named = set(re.findall(r"firstflight_\w+", rule["expr"]))
    assert named <= {family.name for family in machine_metrics.families()}
    assert named or rule["alert"] == "MachineDoesNotAnswer"  # of what Prometheus itself measures


def test_the_command_serves_them(tmp_path: Path) -> None:
    command = [
        *FIRSTFLIGHT,
        "site",
        "metrics",
        "--port",
        "0",
        "--disk",
        str(tmp_path),
        "--database",
        "host=/none",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stderr is not None
        found = re.match(r"metrics at (\S+)$", process.stderr.readline())
        assert found
        text = requests.get(found[1], timeout=60).text
        process.terminate()
        assert process.wait(60) == 0
    assert "\nfirstflight_database_up 0.0\n" in text and "\nfirstflight_disk_free_bytes{path=" in text
