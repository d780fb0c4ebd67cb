"""Starts Superset on the store that FIRSTFLIGHT_STORE names, until Ctrl-C or SIGTERM (`make superset`).

    python -m deploy.superset.start [--host 127.0.0.1] [--port 8088] [--folder var/superset]

Superset has a separate environment, .venv-superset (deploy/setup.sh superset). If `store serve` serves the
embedded store, Superset uses that server; otherwise this program serves the store meanwhile. The folder
keeps Superset's database, its key and the administrator's password. The first start generates both secrets
(mode 0600). Exit status 130 after Ctrl-C, 0 after SIGTERM, 2 with one sentence for wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlencode

from firstflight.errors import FirstflightError, UsageError
from firstflight.system import children, files, terminal
from firstflight.system.network.tcp_listener import host_and_port
from reports import generated, superset
from reports.dashboard.asking.faults import NoAnswer
from reports.dashboard.asking.served import ServedStore
from store.address.url import ServerLocation
from store.clickhouse import listening

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
ENVIRONMENT = TREE / ".venv-superset"
ADMIN = "admin"
_SERVED_S = 60.0
_STOP_S = 20.0


def address(store: ServerLocation) -> str:
    """Return the store's address for clickhouse-sqlalchemy."""
    options: dict[str, str] = {}
    if store.secure:
        options = {"secure": "1", "verify": str(int(store.verify))}
        if store.ca_certs:
            options["ca_certs"] = store.ca_certs
    who = f"{quote(store.user, safe='')}:{quote(store.password, safe='')}"
    return f"clickhouse+native://{who}@{host_and_port(store.host, store.port)}/{store.database}" + (
        "?" + urlencode(options) if options else ""
    )


def keep(path: Path, text: str, *, again: bool = False) -> None:
    """Write a secret that only this user can read. Without `again`, an existing one stays."""
    if again or not path.exists():
        files.write_secret(path, f"{text}\n")


def environment(folder: Path) -> dict[str, str]:
    """Return the environment for Superset's processes: no secrets of the caller, and `folder` as home."""
    inherited = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ") if name in os.environ}
    return inherited | {
        "PATH": os.pathsep.join([str(ENVIRONMENT / "bin"), os.defpath]),
        "HOME": str(folder),
        "SUPERSET_HOME": str(folder),
        "SUPERSET_CONFIG_PATH": str(HERE / "superset_config.py"),
        "FIRSTFLIGHT_SUPERSET": str(folder),
        "FLASK_APP": "superset.app:create_app()",
        "SCARF_ANALYTICS": "false",
    }


async def serve(folder: Path, port: int, host: str) -> int:
    """Prepare Superset and serve it until a signal; return the exit status. UsageError if that fails."""
    stopped: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for signum, status in ((signal.SIGINT, 130), (signal.SIGTERM, 0)):
        asyncio.get_running_loop().add_signal_handler(signum, partial(_stop, stopped, status))
    store = ServedStore()
    python, gunicorn = (str(ENVIRONMENT / "bin" / name) for name in ("python", "gunicorn"))
    try:
        located = await store.location(_SERVED_S)
        keep(folder / "store_url", address(located), again=True)
        say(f"preparing Superset in {folder} for the store {located.public_url}: a minute at the first start")
        # Delete assets that an older version wrote and this version does not.
        shutil.rmtree(folder / "assets", ignore_errors=True)
        generated.write(folder / "assets", superset.files())
        loading = [python, str(HERE / "load.py"), str(folder / "assets"), str(folder / "admin_password")]
        log = folder / "load.log"
        if await run(loading, folder, log, stopped) and not stopped.done():
            raise UsageError(f"Superset could not be prepared: the end of {log} says why")
        if not stopped.done():
            serving = [
                gunicorn,
                "--bind",
                host_and_port(host, port),
                "--workers",
                "1",
                "--threads",
                "16",
                "--timeout",
                "150",
            ]
            serving += ["--graceful-timeout", "5", "--no-control-socket"]
            log = folder / "superset.log"
            telling = asyncio.create_task(_say_when_it_listens(folder, host, port))
            await run([*serving, "superset.app:create_app()"], folder, log, stopped)
            telling.cancel()
        if not stopped.done():
            raise UsageError(f"Superset has ended: the end of {log} says why")
        return stopped.result()
    finally:
        await store.stop()


async def _say_when_it_listens(folder: Path, host: str, port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(0.2)
            continue
        writer.close()
        say(f"user {ADMIN}, password in {folder / 'admin_password'}; Ctrl-C ends it")
        say(f"serving Superset at http://{host_and_port(host, port)}/superset/dashboard/firstflight/")
        return


def _stop(stopped: asyncio.Future[int], status: int) -> None:
    if not stopped.done():
        stopped.set_result(status)


async def run(argv: list[str], folder: Path, log: Path, stopped: asyncio.Future[int]) -> int:
    """Run a program of Superset's environment until it ends, or until `stopped`; return its exit status."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *argv,
            env=environment(folder),
            cwd=folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # Ctrl-C is for this program, which stops it
            preexec_fn=partial(children.die_with_parent, signal.SIGTERM),
        )
    ending = asyncio.ensure_future(process.wait())
    await asyncio.wait({ending, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not ending.done():
        process.terminate()
        await asyncio.wait({ending}, timeout=_STOP_S)
    if not ending.done():
        process.kill()
    return await ending


def say(line: str) -> None:
    """Print a line for the user, on standard error."""
    terminal.echo(line, err=True)


def prepare(folder: Path) -> None:
    """Make the folder and, once, its random secrets; UsageError if Superset's environment is missing."""
    if not (ENVIRONMENT / "bin" / "gunicorn").exists():
        raise UsageError(f"{ENVIRONMENT} has no Superset: `make superset` installs it")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    keep(folder / "secret_key", secrets.token_urlsafe(64))
    keep(folder / "admin_password", secrets.token_urlsafe(18))


def main() -> int:
    """Start Superset; the module's docstring describes the exit status."""
    parser = argparse.ArgumentParser(prog="python -m deploy.superset.start")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8088)
    parser.add_argument("--folder", type=Path, default=TREE / "var" / "superset")
    options = parser.parse_args()
    try:
        if not 0 < options.port < 65536:
            raise UsageError(f"--port {options.port} is no port: 1 to 65535")
        if listening.needs_password(options.host):
            raise UsageError(
                f"others can reach {options.host}, and Superset speaks plain HTTP: let it listen on loopback "
                "and connect by `ssh -L`"
            )
        folder = options.folder.absolute()
        prepare(folder)
        return asyncio.run(serve(folder, options.port, options.host))
    except (OSError, FirstflightError, NoAnswer) as error:
        say(f"superset: {error}")
        return 2


if __name__ == "__main__":
    sys.exit(main())
