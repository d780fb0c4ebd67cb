"""Which programs make a site over the lab, on which host, with which environment."""

from __future__ import annotations

import os
import shutil
import signal
import string
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from lab import certificates
from lab.programs import program
from lab.site import database, secrets
from lab.site.secrets import Secrets
from lab.state import State

HERE = Path(__file__).resolve().parent
TREE = HERE.parent.parent
API_PORT = 8080  # on the centre's own loopback
STORE_PORT = 9440


class Level(IntEnum):
    """What stands on what: programs are started from the lowest level up, and ended from the highest down."""

    BASE = 0  # databases, and what leads to the services
    CENTRE = 1  # what answers: Airflow's api-server
    WORK = 2  # what asks it: a task that finds no api-server has failed

    @property
    def description(self) -> str:
        """For people."""
        return ("the databases", "Airflow's central services", "the scheduler and the Edge workers")[self]


@dataclass(frozen=True)
class Part:
    """A program of the site. `ready`: a line of its log that says it is up; None: that it runs is enough."""

    name: str
    host: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    ready: str | None = None
    level: Level = Level.BASE
    end: signal.Signals = signal.SIGTERM  # by which it is asked to end
    question: str | None = None  # a path below the page, asked once before anybody else may


@dataclass(frozen=True)
class Site:
    """A site's folder and what belongs where in it."""

    folder: Path
    lab: State
    centre_v4: str
    vantages: tuple[str, ...]
    # Seconds: heartbeat of the workers; how long a task may be silent before it counts as dead.
    heartbeat_s: int = 10
    silence_s: int = 60
    paused: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def secrets(self) -> Secrets:
        """The site's secrets; drawn by `prepare`."""
        return Secrets(self.folder / "secrets")

    @property
    def certificate(self) -> certificates.ServerCertificate:
        """Of the centre's address, from the lab's authority; issued by `prepare`."""
        folder = self.lab.folder / "certificates"
        return certificates.ServerCertificate(folder / "centre.pem", folder / "centre.key")

    @property
    def logs(self) -> Path:
        """One file per program."""
        return self.folder / "logs"

    @property
    def database(self) -> Path:
        """Airflow's central database: a PostgreSQL cluster."""
        return self.folder / "database"

    def home(self, place: str) -> Path:
        """AIRFLOW_HOME of the centre, or of a vantage point: nothing in it is shared."""
        return self.folder / place / "airflow"

    def runs(self, place: str) -> Path:
        """Folder of runs of the centre, or the spool of a vantage point."""
        return self.folder / place / "runs"


def prepare(site: Site) -> None:
    """Write everything that the programs read: secrets, site.toml, nginx's configuration, pools."""
    site.logs.mkdir(parents=True, exist_ok=True)
    for place in ("centre", *site.vantages):
        site.home(place).mkdir(parents=True, exist_ok=True)
        site.runs(place).mkdir(parents=True, exist_ok=True)
    authority = certificates.make_authority(site.lab.folder)
    address = f"{site.centre_v4}:{STORE_PORT}/firstflight?ca_certs={authority.path}"
    secrets.draw(site.secrets.folder, f"clickhouses://firstflight:{{password}}@{address}")
    for name in ("site.toml", "watch.toml", "watched.txt", "vantage_points.toml"):
        shutil.copyfile(HERE / name, site.folder / name)
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


def parts(site: Site) -> list[Part]:
    """Every program, in the order in which they are started."""
    centre = centre_environment(site)
    stored = {"FIRSTFLIGHT_STORE": f"chdb:{site.folder / 'store'}"}
    nginx = (program("nginx", "nginx-light"), "-e", "stderr", "-c", str(site.folder / "nginx/nginx.conf"))
    served = (sys.executable, "-P", "-m", "lab.site.database", "--folder", str(site.database))
    # By SIGINT it does not wait until its clients have gone.
    end = signal.SIGINT
    up = "Application startup complete"
    # Airflow 3.3 makes this interface's routes at its first request: seconds in which nobody is answered.
    first = "/execution/health"
    found = [
        Part("database", "centre", served, {}, ready=database.READY, end=end),
        Part("store", "centre", _store(site), stored, ready="serving the store in"),
        Part("nginx", "centre", nginx, {}, ready=r"start worker process \d+"),
        Part("api-server", "centre", _airflow("api-server"), centre, up, Level.CENTRE, question=first),
        Part("dag-processor", "centre", _airflow("dag-processor"), centre, level=Level.CENTRE),
        Part("scheduler", "centre", _airflow("scheduler"), centre, level=Level.WORK),
    ]
    return found + [worker(site, name) for name in site.vantages]


def worker(site: Site, name: str) -> Part:
    """The Edge worker of a vantage point."""
    argv = (sys.executable, "-P", "-m", "orchestration.airflow.worker", "--vantage", name)
    return Part(f"worker-{name}", name, argv, vantage_environment(site, name), level=Level.WORK)


def _airflow(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "airflow", *words)


def _store(site: Site) -> tuple[str, ...]:
    certificate = site.certificate
    return (
        *(sys.executable, "-P", "-m", "cli", "store", "serve", "--host", site.centre_v4),
        *("--port", str(STORE_PORT), "--user", "firstflight"),
        *("--password-file", str(site.secrets.store_password)),
        *("--certificate", str(certificate.chain), "--key", str(certificate.key)),
    )


def shared_environment(site: Site, place: str) -> dict[str, str]:
    """Variables of every Airflow process. Secrets come by command, so that no environment holds them."""
    return {
        **site.environment,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        "AIRFLOW_HOME": str(site.home(place)),
        "AIRFLOW__CORE__DAGS_FOLDER": str(TREE / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        # At the vantage points as well: a DAG file that names an executor unknown there does not load.
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor,airflow.providers.edge3.executors.EdgeExecutor",
        "AIRFLOW__API_AUTH__JWT_SECRET_CMD": f"cat {site.secrets.jwt}",
        "AIRFLOW__EDGE__HEARTBEAT_INTERVAL": str(site.heartbeat_s),
        "AIRFLOW__EDGE__JOB_POLL_INTERVAL": "1",
        "FIRSTFLIGHT_SITE": str(site.folder),
        "FIRSTFLIGHT_RUNS": str(site.runs(place)),
        "FIRSTFLIGHT_STORE_FILE": str(site.secrets.store_url),
        "FIRSTFLIGHT_LAB": str(site.lab.folder),
        "PYTHONUNBUFFERED": "1",
    }


def centre_environment(site: Site) -> dict[str, str]:
    """Of the central services."""
    local = f"http://127.0.0.1:{API_PORT}"
    return {
        **shared_environment(site, "centre"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database.URL,
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": str(site.paused),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{local}/execution/",
        "AIRFLOW__CORE__FERNET_KEY_CMD": f"cat {site.secrets.fernet}",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(site.secrets.passwords),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(API_PORT),
        "AIRFLOW__API__SECRET_KEY_CMD": f"cat {site.secrets.session}",
        # A task waits for its vantage point in the queue: after the default of ten minutes, three times, it
        # would count as failed, and not be tried again.
        "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "2592000",
        # A scheduler that is back before its predecessor counts as dead takes that one's tasks over at its
        # next look, and only then misses their workers: by default five minutes later.
        "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "30",
        "AIRFLOW__EDGE__API_ENABLED": "True",
        "AIRFLOW__EDGE__API_URL": f"{local}/edge_worker/v1/rpcapi",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": str(site.silence_s),
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "FIRSTFLIGHT_REPORTS": str(site.folder / "reports"),
    }


def vantage_environment(site: Site, name: str) -> dict[str, str]:
    """Of a vantage point's worker: the centre's address, the secret, the store. No database of Airflow."""
    return {
        **shared_environment(site, name),
        "AIRFLOW__EDGE__API_URL": f"https://{site.centre_v4}/edge_worker/v1/rpcapi",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"https://{site.centre_v4}/execution/",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "5",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(site.home(name) / "logs"),
    }
