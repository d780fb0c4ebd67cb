"""A centre and a vantage point in separate network namespaces, with a link that a test can cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from firstflight.egress import current
from firstflight.system import children
from lab.hosts import certificates
from lab.system.namespaces import MARK
from tests.airflow.conftest import airflow_environment
from tests.waiting import until

CENTRE, VANTAGE = "198.18.7.1", "198.18.7.2"
SECRET = "s" * 64
_PREPARE = "ip link set lo alias {mark} up; ip link set {end} up; ip address add {own}/30 dev {end}"
# The interface as Airflow's api-server mounts it, behind TLS.
_SERVE = """
import sys
import uvicorn
from fastapi import FastAPI
from orchestration.airflow.inputs_app import app

main = FastAPI()
main.mount("/firstflight/v1", app)
host, chain, key = sys.argv[1:]
uvicorn.run(main, host=host, port=443, ssl_certfile=chain, ssl_keyfile=key, log_level="warning")
"""


class OptoutWorld:
    """Context manager for both machines. The centre serves the list; `follow` starts the follower."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.entered = folder / "centre" / "optout"
        self.copy = folder / "vantage" / "optout"
        self._stack = ExitStack()
        self._holders: dict[str, int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for end in ("centre", "vantage"):
                (self.folder / end).mkdir()
                self._holders[end] = _keep_open(stack)
            link = f"ip link add centre type veth peer name vantage netns {self._holders['vantage']}"
            self.inside("centre", ["sh", "-ec", link])
            for end, own in (("centre", CENTRE), ("vantage", VANTAGE)):
                self.inside(end, ["sh", "-ec", _PREPARE.format(mark=MARK, end=end, own=own)])
            self._serve(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def argv(self, end: str, argv: Sequence[object]) -> list[str]:
        """Return the argument list that runs a program at one end."""
        return ["nsenter", f"--net=/proc/{self._holders[end]}/ns/net", "--", *map(str, argv)]

    def inside(self, end: str, argv: Sequence[str | Path]) -> str:
        """Run a program at one end; return its output."""
        done = subprocess.run(
            self.argv(end, argv), env=self.environment(end), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self, end: str, argv: Sequence[object], **streams: Any) -> subprocess.Popen[bytes]:
        """Start a program at one end."""
        environment = self.environment(end)
        return children.start(self.argv(end, argv), own_session=True, env=environment, **streams)

    def environment(self, end: str) -> dict[str, str]:
        """Return the environment of programs at one end, as the playbook writes it."""
        own = {"REQUESTS_CA_BUNDLE": str(self.folder / "ca.pem"), "AIRFLOW__EDGE__API_URL": ""}
        if end == "centre":
            return {**os.environ, **own, current.VARIABLE: str(self.entered)}
        return {**os.environ, **own, current.VARIABLE: f"{current.FOLLOWED}{self.copy}"}

    def follow(self) -> subprocess.Popen[bytes]:
        """Start the follower of the list at the vantage point."""
        secret = self.folder / "vantage" / "secret"
        secret.write_text(f"{SECRET}\n")
        argv = [sys.executable, "-P", "-m", "cli", "optout", "follow"]
        argv += ["--centre", f"https://{CENTRE}", "--secret-file", str(secret)]
        return self.start("vantage", argv, stderr=subprocess.PIPE)

    def enter(self, *entries: str) -> None:
        """Add opt-out entries at the centre."""
        self.inside("centre", [sys.executable, "-P", "-m", "cli", "optout", "add", *entries])

    def cut(self) -> None:
        """Cut the link."""
        self.inside("vantage", ["ip", "link", "set", "vantage", "down"])

    def mend(self) -> None:
        """Restore the link."""
        self.inside("vantage", ["ip", "link", "set", "vantage", "up"])

    def age_s(self) -> float:
        """Return the time since the centre confirmed the copy; infinite if it never did."""
        age = current.age(self.copy)
        return float("inf") if age is None else age

    def age_by(self, seconds: float) -> None:
        """Make the confirmation of the copy older."""
        path = current.confirmed_file(self.copy)
        content = json.loads(path.read_text())
        content["at_ns"] -= int(seconds * 1e9)
        path.write_text(json.dumps(content))

    def _serve(self, stack: ExitStack) -> None:
        self.entered.write_text("203.0.113.0/24\n")
        authority = certificates.make_authority(self.folder)
        (self.folder / "ca.pem").write_bytes(authority.path.read_bytes())
        issued = certificates.issue(authority, "centre", [CENTRE])
        site = self.folder / "site"
        site.mkdir()
        environment = {
            **airflow_environment(self.folder / "home", site),
            **self.environment("centre"),
            "AIRFLOW__API_AUTH__JWT_SECRET": SECRET,
        }
        argv = [sys.executable, "-c", _SERVE, CENTRE, str(issued.chain), str(issued.key)]
        log = stack.enter_context((self.folder / "centre.log").open("wb"))
        process = children.start(
            self.argv("centre", argv), own_session=True, env=environment, stdout=log, stderr=log
        )
        stack.callback(children.stop, process)
        listening = ["ss", "-Hltn", "sport", "=", ":443"]
        until(
            lambda: process.poll() is not None or self.inside("centre", listening),
            (self.folder / "centre.log").read_text,
        )
        assert process.poll() is None, (self.folder / "centre.log").read_text()


def _keep_open(stack: ExitStack) -> int:
    holder = children.start(
        ["unshare", "--net", "sh", "-c", "echo; exec cat"],
        own_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    stack.callback(children.stop, holder)
    assert holder.stdout is not None and holder.stdout.readline()
    return holder.pid
