"""Metrics for a site's machine: disks, certificates, backups, Airflow, PostgreSQL.

Each value is read when Prometheus scrapes it. Unreadable values are missing; in metrics named `*_up` they are
0.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography import x509
from prometheus_client.core import GaugeMetricFamily, Metric

from firstflight.egress import current
from firstflight.errors import InputError
from orchestration.site import backup

_ANSWER_S = 5.0
HEALTH = "/api/v2/monitor/health"
"""Path of Airflow's API server that needs no login."""


@dataclass(frozen=True)
class MachineParts:
    """A site's parts on this machine.

    `disks`: folders; `certificates`: PEM files; `backups`: the folder to which `parts` are backed up;
    `airflow`: URL of the API server; `database`: connection string of PostgreSQL (libpq).
    """

    disks: Sequence[Path] = ()
    certificates: Sequence[Path] = ()
    backups: Path | None = None
    parts: Sequence[str] = ()
    airflow: str | None = None
    database: str | None = None


def metrics(machine: MachineParts) -> Iterator[Metric]:
    """Yield all families. InputError for a disk or a certificate that cannot be read."""
    yield from _optout()
    yield from _disks(machine.disks)
    yield _certificates(machine.certificates)
    if machine.backups is not None:
        yield from _backups(machine.backups, machine.parts)
    if machine.airflow is not None:
        yield from _airflow(machine.airflow)
    if machine.database is not None:
        yield from _database(machine.database)


def families() -> list[Metric]:
    """Return all families without samples from a machine, for the documentation and for tests of rules."""
    return [
        *optout_families(None),
        *_disks([]),
        _certificates([]),
        *_backups(Path("none"), []),
        *airflow_families(None),
        *database_families(None),
    ]


def _optout() -> Iterator[Metric]:
    value = current.machine_list() or ""
    if value.startswith(current.FOLLOWED):
        yield from optout_families(current.age(Path(value.removeprefix(current.FOLLOWED))))


def optout_families(age_s: float | None) -> Iterator[Metric]:
    """Yield what a followed list permits; `age_s`: seconds since its confirmation, None if there is none."""
    yield _single_value(
        "optout_confirmed",
        "1 if the centre confirmed the opt-out list in the last minute; else 0, and nothing is sent.",
        age_s is not None and age_s < current.SEND_FOR_S,
    )
    yield _single_value(
        "optout_confirmation_age_seconds", "Time since the centre confirmed the opt-out list.", age_s
    )


def _disks(folders: Sequence[Path]) -> Iterator[Metric]:
    size = _gauge("disk_size_bytes", "Size of the file system that has the folder.", "path")
    free = _gauge("disk_free_bytes", "Free bytes of the file system that services may use.", "path")
    for folder in folders:
        try:
            status = os.statvfs(folder)
        except OSError as error:
            raise InputError(f"{folder} cannot be read: {error.strerror}; correct --disk") from error
        size.add_metric([str(folder)], status.f_blocks * status.f_frsize)
        free.add_metric([str(folder)], status.f_bavail * status.f_frsize)
    yield from (size, free)


def _certificates(paths: Sequence[Path]) -> Metric:
    ends = _gauge("certificate_end_timestamp_seconds", "When the certificate expires.", "file")
    for path in paths:
        try:
            chain = x509.load_pem_x509_certificates(path.read_bytes())
        except (OSError, ValueError) as error:
            raise InputError(f"{path} is no certificate: {error}; correct --certificate") from error
        # A chain expires with the first certificate in it that expires.
        ends.add_metric(
            [str(path)], min(certificate.not_valid_after_utc for certificate in chain).timestamp()
        )
    return ends


def _backups(folder: Path, parts: Sequence[str]) -> Iterator[Metric]:
    count = _gauge("backups", "Backups of this part that were restored as a test.", "part")
    size = _gauge("backup_bytes", "Size of the newest backup.", "part")
    made = _gauge("backup_timestamp_seconds", "When the newest backup was started.", "part")
    for part in parts:
        backups = backup.backups(folder, part)
        count.add_metric([part], len(backups))
        if backups:
            if (size_bytes := backup.size_bytes(backups[-1])) is not None:
                size.add_metric([part], size_bytes)
            made.add_metric([part], backup.started_at(backups[-1]).timestamp())
    yield from (count, size, made)


def _airflow(url: str) -> Iterator[Metric]:
    import requests

    try:
        answer = requests.get(url.rstrip("/") + HEALTH, timeout=_ANSWER_S, allow_redirects=False)
        answer.raise_for_status()
        components = {name: component for name, component in answer.json().items() if component}
    except (requests.RequestException, ValueError, AttributeError):
        components = None
    yield from airflow_families(components)


def airflow_families(components: dict[str, dict[str, str | None]] | None) -> Iterator[Metric]:
    """Yield what Airflow says of its components; None: it did not answer."""
    healthy = _gauge(
        "airflow_healthy", "1 if Airflow says that its component is healthy, else 0.", "component"
    )
    beat = _gauge(
        "airflow_heartbeat_timestamp_seconds", "The newest heartbeat of the component.", "component"
    )
    for name, component in (components or {}).items():
        if component.get("status") is not None:  # null: this site does not run it
            healthy.add_metric([name], component["status"] == "healthy")
        if at := component.get(f"latest_{name}_heartbeat"):
            beat.add_metric([name], datetime.fromisoformat(at).timestamp())
    yield _single_value("airflow_up", "1 if Airflow's API server answers, else 0.", components is not None)
    yield from (healthy, beat)


def _database(dsn: str) -> Iterator[Metric]:
    import psycopg2

    try:
        connection = psycopg2.connect(dsn, connect_timeout=int(_ANSWER_S))
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_database_size(current_database()), (SELECT count(*) FROM pg_stat_activity), "
                    "current_setting('max_connections')::int"
                )
                answer = cursor.fetchone()
        finally:
            connection.close()
    except psycopg2.Error:
        answer = None
    yield from database_families(answer)


def database_families(answer: tuple[int, int, int] | None) -> Iterator[Metric]:
    """Yield what PostgreSQL answered: bytes, connections and their limit; None: it did not answer."""
    size, connections, limit = answer or (None, None, None)
    yield _single_value("database_up", "1 if PostgreSQL answers a query, else 0.", answer is not None)
    yield _single_value("database_bytes", "Size of Airflow's database.", size)
    yield _single_value("database_connections", "Server processes of PostgreSQL.", connections)
    yield _single_value("database_connections_limit", "Connections that PostgreSQL accepts.", limit)


def _gauge(name: str, meaning: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"firstflight_{name}", meaning, labels=labels)


def _single_value(name: str, meaning: str, value: float | None) -> Metric:
    family = _gauge(name, meaning)
    if value is not None:
        family.add_metric([], value)
    return family
