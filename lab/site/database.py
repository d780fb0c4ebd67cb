"""Airflow's central database: a PostgreSQL cluster in the site's folder, created at the first start.

python -m lab.site.database --folder DIR        (on the host `centre`; executes PostgreSQL)

PostgreSQL refuses to run as root, so root runs it as the system's user `postgres`. That user may have no
access to the site's folder, and a socket's path must be short (unix(7): 107 bytes). Therefore the cluster is
mounted below /run, which is private to the lab. It listens only on a Unix socket with peer authentication,
without a password.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

from firstflight.errors import FirstflightError, UsageError
from lab.system import mounts
from lab.system.programs import program

SHOWN = Path("/run/firstflight-database")
SOCKETS = Path("/run/postgresql")
USER = "postgres"  # from Debian's package
ROLE = "airflow"
DATABASE = "airflow"
URL = f"postgresql+psycopg2://{ROLE}@/{DATABASE}?host={SOCKETS}"
READY = "database system is ready to accept connections"


def programs(cluster: Path) -> Path:
    """Return the folder of PostgreSQL's programs: the version of the cluster, or the newest.

    Debian does not put them on PATH. UsageError names the missing package.
    """
    folders = {path.parts[4]: path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/postgres")}
    made_by = cluster / "PG_VERSION"
    if made_by.is_file():
        version = made_by.read_text(encoding="ascii").strip()
        if version not in folders:
            raise UsageError(
                f"{cluster.parent} was created by PostgreSQL {version}, which is not installed: "
                f"apt-get install postgresql-{version}, or remove the folder and with it Airflow's history"
            )
        return folders[version]
    if not folders:
        raise UsageError("the site needs the program postgres: apt-get install postgresql")
    return folders[max(folders, key=float)]


def serve(folder: Path) -> NoReturn:
    """Execute the cluster in `folder`, creating it if needed; FirstflightError if that fails."""
    bin_folder = programs(folder / "cluster")
    owner = _owner()
    os.umask(0o022)
    folder.mkdir(parents=True, exist_ok=True)
    mounts.own_folder(folder, SHOWN)
    SOCKETS.mkdir(exist_ok=True)
    os.chown(SOCKETS, owner.pw_uid, owner.pw_gid)
    client = pwd.getpwuid(os.geteuid()).pw_name
    (SHOWN / "hba.conf").write_text(f"local {DATABASE} {ROLE} peer map=site\n", encoding="ascii")
    (SHOWN / "ident.conf").write_text(f"site {client} {ROLE}\n", encoding="utf-8")
    cluster = SHOWN / "cluster"
    as_owner = _as_owner(owner)
    if not cluster.exists():
        _create_cluster(cluster, bin_folder, as_owner, owner)
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(SOCKETS),
        "unix_socket_permissions": "0700",
        "hba_file": str(SHOWN / "hba.conf"),
        "ident_file": str(SHOWN / "ident.conf"),
        "cluster_name": "firstflight",
        "max_connections": "200",
        "jit": "off",  # many small queries
    }
    argv = [*as_owner, str(bin_folder / "postgres"), "-D", str(cluster)]
    for name, value in settings.items():
        argv += ["-c", f"{name}={value}"]
    os.chdir(SHOWN)
    os.execv(argv[0], argv)
    raise AssertionError("not reached")


def _owner() -> pwd.struct_passwd:
    """Return the user that owns the cluster's processes and files."""
    if os.geteuid() != 0:
        return pwd.getpwuid(os.geteuid())
    try:
        return pwd.getpwnam(USER)
    except KeyError as error:
        raise UsageError(
            f"there is no user {USER} to run the database as: apt-get install postgresql"
        ) from error


def _as_owner(owner: pwd.struct_passwd) -> list[str]:
    """Return the command prefix that drops all privileges except the owner's."""
    change = [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--init-groups"]
    return [
        program("setpriv", "util-linux"),
        *(change if os.geteuid() == 0 else []),
        *("--inh-caps=-all", "--ambient-caps=-all"),
    ]


def _create_cluster(cluster: Path, bin_folder: Path, as_owner: list[str], owner: pwd.struct_passwd) -> None:
    """Create the cluster with its database atomically."""
    part = cluster.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700)
    os.chown(part, owner.pw_uid, owner.pw_gid)
    initdb = ["initdb", f"--username={ROLE}", "--encoding=UTF8", "--locale=C.UTF-8", "--auth=peer"]
    _run_program([*as_owner, str(bin_folder / initdb[0]), *initdb[1:], "-D", str(part)])
    # In single-user mode, because nobody can connect yet and there is no server to stop.
    single = ["postgres", "--single", "-c", "exit_on_error=on", "-D", str(part), "template1"]
    _run_program([*as_owner, str(bin_folder / single[0]), *single[1:]], f"CREATE DATABASE {DATABASE}\n")
    part.rename(cluster)


def _run_program(argv: list[str], stdin: str = "") -> None:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, cwd=SHOWN)
    if done.returncode != 0:
        errors = [line.strip() for line in done.stderr.splitlines() if "error:" in line or "FATAL" in line]
        raise FirstflightError(
            f"the site's database was not created: {'; '.join(errors) or done.stderr.strip()[-300:]}"
        )


def main() -> int:
    """Serve until a signal; print an error as one sentence."""
    parser = argparse.ArgumentParser(prog="python -m lab.site.database")
    parser.add_argument("--folder", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    try:
        serve(options.folder)
    except FirstflightError as error:
        print(f"database: {error}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
