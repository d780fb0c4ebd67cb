"""A site's programs in the lab: arguments, host, environment and start order."""

from __future__ import annotations

import os
import shutil
import signal
import string
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from lab.hosts import certificates
from lab.site import database, secrets
from lab.site.secrets import Secrets
from lab.state import StateFolder
from lab.system.programs import program

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
API_PORT = 8080  # on the centre's loopback
STORE_PORT = 9440


class Level(IntEnum):
    """Dependency level: programs are started from the lowest level up, and stopped from the highest down."""

    BASE = 0  # databases and proxies
    CENTRE = 1  # servers: Airflow's api-server
    WORK = 2  # its clients: a task that cannot reach the api-server fails

    @property
    def description(self) -> str:
        """The level's name in messages."""
        return (
            "the databases",
            "Airflow's central services",
            "the scheduler, and at the vantage points opt-out lists and Edge workers",
        )[self]


@dataclass(frozen=True)
class SiteProgram:
    """A program of the site. `ready` matches the log line that shows that it is up; `None` without one."""

    name: str
    host: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ready: str | None = None
    level: Level = Level.BASE
    end: signal.Signals = signal.SIGTERM  # the signal that stops it
    question: str | None = None  # a path of the page, requested once before other programs start


@dataclass(frozen=True)
class SiteFolder:
    """A site's folder and the paths in it."""

    folder: Path
    lab: StateFolder
    centre_v4: str
    vantages: tuple[str, ...]
    # Seconds: heartbeat of the workers; time without heartbeat after which a task counts as dead.
    heartbeat_s: int = 10
    silence_s: int = 60
    paused: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def secrets(self) -> Secrets:
        """The site's secrets; `prepare` generates them."""
        return Secrets(self.folder / "secrets")

    @property
    def certificate(self) -> certificates.ServerCertificate:
        """The certificate for the centre's address; the lab's authority issues it in `prepare`."""
        folder = self.lab.folder / "certificates"
        return certificates.ServerCertificate(folder / "centre.pem", folder / "centre.key")

    @property
    def logs(self) -> Path:
        """The folder of logs, one file per program."""
        return self.folder / "logs"

    @property
    def database(self) -> Path:
        """Airflow's central database: a PostgreSQL cluster."""
        return self.folder / "database"

    def home(self, host: str) -> Path:
        """Return AIRFLOW_HOME of the centre or of a vantage point; each has a separate one."""
        return self.folder / host / "airflow"

    def runs(self, host: str) -> Path:
        """Return the folder of runs of the centre or of a vantage point."""
        return self.folder / host / "runs"

    def optout(self, host: str) -> Path:
        """Return the site's opt-out list at the centre, or a vantage point's copy."""
        return self.folder / host / "optout" / "list"


def prepare(site: SiteFolder) -> None:
    """Write all files that the programs read: secrets, site.toml, certificates, nginx's configuration."""
    site.logs.mkdir(parents=True, exist_ok=True)
    for host in ("centre", *site.vantages):
        site.home(host).mkdir(parents=True, exist_ok=True)
        site.runs(host).mkdir(parents=True, exist_ok=True)
        site.optout(host).parent.mkdir(exist_ok=True)
    # A missing list counts as broken, and nobody can confirm it.
    site.optout("centre").touch()
    authority = certificates.make_authority(site.lab.folder)
    address = f"{site.centre_v4}:{STORE_PORT}/firstflight?ca_certs={authority.path}"
    secrets.generate(site.secrets.folder, f"clickhouses://firstflight:{{password}}@{address}")
    for path in (*HERE.glob("*.toml"), HERE / "watched.txt", HERE.parent / "downloads.txt"):
        shutil.copyfile(path, site.folder / path.name)
    points_file = site.folder / "vantage_points.toml"
    points_file.write_text(
        of_vantages(points_file.read_text(encoding="utf-8"), site.vantages), encoding="utf-8"
    )
    link = site.folder / "lab"
    link.unlink(missing_ok=True)
    link.symlink_to(site.lab.folder)
    certificates.issue(authority, "centre", [site.centre_v4])
    folder = site.folder / "nginx"
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    template = string.Template((HERE / "nginx.conf.template").read_text(encoding="utf-8"))
    (folder / "nginx.conf").write_text(
        template.safe_substitute(
            folder=folder,
            address=site.centre_v4,
            port=API_PORT,
            chain=site.certificate.chain,
            key=site.certificate.key,
            user="user root;" if os.geteuid() == 0 else "",
        ),
        encoding="utf-8",
    )


def of_vantages(text: str, names: Sequence[str]) -> str:
    """Return vantage_points.toml with only the tables of `names`."""
    head, *tables = text.split("[[vantage]]")
    chosen = [table for table in tables if tomllib.loads(table)["name"] in names]
    return head + "".join(f"[[vantage]]{table}" for table in chosen)


def parts(site: SiteFolder) -> list[SiteProgram]:
    """Return all programs in their start order."""
    centre = centre_environment(site)
    stored = {"FIRSTFLIGHT_STORE": f"chdb:{site.folder / 'store'}"}
    nginx = (program("nginx", "nginx-light"), "-e", "stderr", "-c", str(site.folder / "nginx/nginx.conf"))
    served = (sys.executable, "-P", "-m", "lab.site.database", "--folder", str(site.database))
    # On SIGINT PostgreSQL does not wait for its clients to disconnect.
    end = signal.SIGINT
    ready_line = "Application startup complete"
    # Airflow 3.3 creates this interface's routes at its first request, which blocks it for seconds.
    health_path = "/execution/health"
    result = [
        SiteProgram("database", "centre", served, {}, ready=database.READY, end=end),
        SiteProgram("store", "centre", _store(site), stored, ready="serving the store in"),
        SiteProgram("nginx", "centre", nginx, {}, ready=r"start worker process \d+"),
        SiteProgram(
            "api-server",
            "centre",
            _airflow("api-server"),
            centre,
            ready_line,
            Level.CENTRE,
            question=health_path,
        ),
        SiteProgram("dag-processor", "centre", _airflow("dag-processor"), centre, level=Level.CENTRE),
        SiteProgram("scheduler", "centre", _airflow("scheduler"), centre, level=Level.WORK),
    ]
    result += [follower(site, name) for name in site.vantages]
    return result + [worker(site, name) for name in site.vantages]


def follower(site: SiteFolder, name: str) -> SiteProgram:
    """Return the program that updates a vantage point's opt-out list. Probes need an up-to-date list."""
    argv = (sys.executable, "-P", "-m", "cli", "optout", "follow", "--secret-file", str(site.secrets.jwt))
    return SiteProgram(f"optout-{name}", name, argv, vantage_environment(site, name), level=Level.WORK)


def worker(site: SiteFolder, name: str) -> SiteProgram:
    """Return a vantage point's Edge worker."""
    argv = (sys.executable, "-P", "-m", "orchestration.airflow.worker", "--vantage", name)
    return SiteProgram(f"worker-{name}", name, argv, vantage_environment(site, name), level=Level.WORK)


def _airflow(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "airflow", *words)


def _store(site: SiteFolder) -> tuple[str, ...]:
    certificate = site.certificate
    return (
        *(sys.executable, "-P", "-m", "cli", "store", "serve", "--host", site.centre_v4),
        *("--port", str(STORE_PORT), "--user", "firstflight"),
        *("--password-file", str(site.secrets.store_password)),
        *("--certificate", str(certificate.chain), "--key", str(certificate.key)),
    )


def shared_environment(site: SiteFolder, host: str) -> dict[str, str]:
    """Return the variables of every Airflow process: commands that read the secrets, not the secrets."""
    return {
        **site.environment,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "AIRFLOW_HOME": str(site.home(host)),
        "AIRFLOW__CORE__DAGS_FOLDER": str(TREE / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # Also at the vantage points: a DAG file with an unknown executor does not load.
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor,airflow.providers.edge3.executors.EdgeExecutor",
        "AIRFLOW__API_AUTH__JWT_SECRET_CMD": f"cat {site.secrets.jwt}",
        "AIRFLOW__EDGE__HEARTBEAT_INTERVAL": str(site.heartbeat_s),
        "AIRFLOW__EDGE__JOB_POLL_INTERVAL": "1",
        "FIRSTFLIGHT_SITE": str(site.folder),
        "FIRSTFLIGHT_RUNS": str(site.runs(host)),
        "FIRSTFLIGHT_STORE_FILE": str(site.secrets.store_url),
        "FIRSTFLIGHT_LAB": str(site.lab.folder),
        "PYTHONUNBUFFERED": "1",
    }


def centre_environment(site: SiteFolder) -> dict[str, str]:
    """Return the variables of the central services."""
    local = f"http://127.0.0.1:{API_PORT}"
    return {
        **shared_environment(site, "centre"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.URL,
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": str(site.paused),
        # DAG files do not change while this site runs. By default, each is parsed every 30 s, which takes a
        # tenth of a core.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "300",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{local}/execution/",
        # Workers do not have this key. Their own secret cannot sign tokens of tasks or logins.
        "AIRFLOW__API_AUTH__JWT_PRIVATE_KEY_PATH": str(site.secrets.signing_key),
        "AIRFLOW__CORE__FERNET_KEY_CMD": f"cat {site.secrets.fernet}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(site.secrets.passwords),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(API_PORT),
        "AIRFLOW__API__SECRET_KEY_CMD": f"cat {site.secrets.session}",
        # Tasks wait in the queue for their vantage point. By default, a task fails without a retry after
        # waiting ten minutes three times.
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "2592000",
        # A scheduler that restarts before its predecessor counts as dead adopts its tasks at the next check.
        # By default, this is five minutes later.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        "AIRFLOW__EDGE__API_ENABLED": "True",
        "AIRFLOW__EDGE__API_URL": f"{local}/edge_worker/v1/rpcapi",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(site.silence_s),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "FIRSTFLIGHT_OPTOUT": str(site.optout("centre")),
        "FIRSTFLIGHT_REPORTS": str(site.folder / "reports"),
    }


def vantage_environment(site: SiteFolder, name: str) -> dict[str, str]:
    """Return the variables for a vantage point's worker; it has no access to Airflow's database."""
    return {
        **shared_environment(site, name),
        "AIRFLOW__EDGE__API_URL": f"https://{site.centre_v4}/edge_worker/v1/rpcapi",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"https://{site.centre_v4}/execution/",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(site.home(name) / "logs"),
        "FIRSTFLIGHT_OPTOUT": f"followed:{site.optout(name)}",
    }
