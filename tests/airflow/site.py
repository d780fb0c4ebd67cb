"""A site for tests: the program that `make airflow` runs, its REST interface, its store, its workers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests

from lab.site.processes import alive, descendants, identities, kill, left_over
from tests.airflow.conftest import TREE

ENDED = ("success", "failed")


class RunningSite:
    """A running site. Every wait has a limit, and its error message names the awaited condition."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.log_file = folder.with_suffix(".log")
        self._options = options

    def start(self) -> None:
        """Start the program that `make airflow` runs, and wait until it is ready."""
        about_file = self.folder / "site.json"
        about_file.unlink(missing_ok=True)
        program = [sys.executable, "-P", "-m", "lab.site", "--folder", str(self.folder), "--port", "0"]
        with self.log_file.open("ab") as output:
            self.process = subprocess.Popen(
                [*program, "--paused", "--heartbeat", "2", "--silence", "30", *self._options],
                cwd=TREE,
                env={**os.environ, "FIRSTFLIGHT_RETRY_DELAY_S": "3"},
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_for(
            lambda: about_file.is_file() or self.process.poll() is not None, 240, self.log_file.read_text
        )
        assert self.process.poll() is None, self.log_file.read_text()
        about = json.loads(about_file.read_text())
        self.page = str(about["page"])
        self.central: dict[str, int] = about["processes"]
        self.password = str(json.loads(Path(about["passwords"]).read_text())["admin"])
        self.sql_line = str(about["sql"])
        self._environment: dict[str, dict[str, str]] = about["environment"]
        self._token = ""

    def end(self) -> None:
        """Stop the site by SIGINT, and check that no process remains."""
        everything = identities(descendants([self.process.pid]))
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(60 * BUSY)
        finally:
            left = sorted({*alive(everything), *left_over(self.folder)})
            kill(left)
        assert left == [], f"the site left processes behind: {left}; {self.log_file.read_text()}"
        assert self.process.returncode == 0, self.log_file.read_text()
        ended = (self.folder / "logs" / "database.log").read_text().splitlines()[-1]
        assert ended.endswith("database system is shut down"), ended

    def kill(self) -> None:
        """Send SIGKILL to the site's program and all processes that it started, as when the power fails.

        The lab is killed, too.
        """
        lab = json.loads((self.folder / "raised.json").read_text())
        kill([self.process.pid, lab["pid"], *descendants([self.process.pid])])
        self.process.wait()
        kill(left_over(self.folder))

    # ---- Airflow's REST interface

    def ask(self, method: str, path: str, *, base: str = "/api/v2", **body: Any) -> Any:
        """Send a request with a token from /auth/token; return the answer's JSON."""
        answer = self._send(method, path, base, **body)
        assert answer.ok, f"{method} {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json() if answer.content else None

    def _send(self, method: str, path: str, base: str = "/api/v2", **body: Any) -> requests.Response:
        if not self._token:
            login = {"username": "admin", "password": self.password}
            answer = requests.post(f"{self.page}/auth/token", json=login, timeout=120)
            answer.raise_for_status()
            self._token = answer.json()["access_token"]
        return requests.request(
            method,
            f"{self.page}{base}{path}",
            headers={"Authorization": f"Bearer {self._token}"},
            timeout=120,
            **body,
        )

    def pause(self, dag: str, paused: bool) -> None:
        """Pause or unpause a DAG."""
        self.ask("PATCH", f"/dags/{dag}", json={"is_paused": paused})

    def maintenance(self, worker: str, *, begins: bool) -> None:
        """Enter or leave a worker's maintenance mode, in which it takes no task, like its page's buttons."""
        more: dict[str, Any] = {"json": {"maintenance_comment": "test"}} if begins else {}
        method = "POST" if begins else "DELETE"
        self.ask(method, f"/worker/{worker}/maintenance", base="/edge_worker/ui", **more)

    def trigger(self, dag: str, **conf: Any) -> str:
        """Trigger a run with a logical date, as the page's form does; return the id."""
        now = datetime.now(UTC).isoformat()
        answer = self.ask("POST", f"/dags/{dag}/dagRuns", json={"conf": conf, "logical_date": now})
        return str(answer["dag_run_id"])

    def mark_failed(self, dag: str, run: str) -> None:
        """Mark a running DAG run as failed.

        If the scheduler changes the same rows, the database may abort this change (a deadlock) and the
        interface answers 500. The request is then repeated.
        """
        path = f"/dags/{dag}/dagRuns/{run}"

        def is_answered() -> bool:
            return self._send("PATCH", path, json={"state": "failed"}).status_code != 500

        wait_for(is_answered, 30, lambda: self.describe(dag, run))
        assert self.state(dag, run) == "failed", self.describe(dag, run)

    def state(self, dag: str, run: str) -> str:
        """Return a DAG run's state."""
        return str(self.ask("GET", f"/dags/{dag}/dagRuns/{run}")["state"])

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        """Return task id (and #N for instances of a mapped one) -> task instance."""
        found = self.ask("GET", f"/dags/{dag}/dagRuns/{run}/taskInstances", params={"limit": 500})
        return {
            t["task_id"] + (f"#{t['map_index']}" if t["map_index"] >= 0 else ""): t
            for t in found["task_instances"]
        }

    def log(self, dag: str, run: str, task: str, attempt: int = 1, number: int = -1) -> str:
        """Return a task's log, as the page shows it."""
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}"
        answer = self.ask("GET", path, params={"map_index": number, "full_content": "true"})
        return "\n".join(json.dumps(entry) for entry in answer["content"])

    def xcom(self, dag: str, run: str, task: str) -> Any:
        """Return a task's return value."""
        path = f"/dags/{dag}/dagRuns/{run}/taskInstances/{task}/xcomEntries/return_value"
        value = self.ask("GET", path)["value"]
        with suppress(TypeError, ValueError):
            return json.loads(value)
        return value

    def run_to_end(self, dag: str, run: str, timeout_s: float) -> str:
        """Wait for the end of a DAG's run; return the state."""
        wait_for(lambda: self.state(dag, run) in ENDED, timeout_s, lambda: self.describe(dag, run))
        return self.state(dag, run)

    def describe(self, dag: str, run: str) -> str:
        """Return a run's progress, for messages."""
        states = {name: t["state"] for name, t in self.tasks(dag, run).items()}
        return f"{dag} {run}: " + ", ".join(f"{name} {state}" for name, state in states.items())

    # ---- processes and hosts

    def kill_central(self, *names: str) -> None:
        """Kill central services (named as in site.json) and their descendants with -9."""
        for name in names:
            for pid in descendants([self.central[name]]):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def worker_pid(self, name: str) -> int:
        """Return the current process for a vantage point's worker."""
        found = [pid for pid in descendants([self.process.pid]) if _is_worker(pid, name)]
        assert found, f"the worker {name} does not run"
        return min(found)

    def kill_worker(self, name: str) -> list[int]:
        """Kill the worker and its descendants with -9, as when a machine loses power."""
        killed = descendants([self.worker_pid(name)])
        for pid in killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return killed

    def firstflight(self, place: str, *arguments: str) -> str:
        """Run `firstflight` where the tasks of `place` run; return the standard output."""
        done = self.execute(place, sys.executable, "-P", "-m", "cli", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def execute(self, place: str, *argv: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program on a host of the lab with Airflow's environment. `stdin`: its standard input."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "cli", "lab", "exec", place, *argv],
            env={**os.environ, **self._environment[place]},
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
        )

    def rows(self, query: str) -> list[dict[str, Any]]:
        """Return the store's answer."""
        output = self.firstflight("centre", "sql", query, "--format", "JSONEachRow")
        return [json.loads(line) for line in output.splitlines()]


# The limits of these tests are several times the needs of an idle machine; on a busy one they are longer.
BUSY = 8


def wait_for(true: Callable[[], bool], timeout_s: float, what: Callable[[], object]) -> None:
    """Wait until `true` returns true. After BUSY times `timeout_s`, fail with the message from `what`."""
    deadline = time.monotonic() + BUSY * timeout_s
    while not true():
        assert time.monotonic() < deadline, f"after {BUSY * timeout_s:.0f} s: {what()}"
        time.sleep(1)


def _is_worker(pid: int, name: str) -> bool:
    with suppress(OSError):
        title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        return f"airflow edge worker: {name}" in title
    return False


@contextmanager
def raised(folder: Path, *options: str) -> Iterator[RunningSite]:
    """Start a site and its lab; stop both at the end."""
    site = RunningSite(folder, *options)
    try:
        site.start()
        yield site
    finally:
        site.end()
