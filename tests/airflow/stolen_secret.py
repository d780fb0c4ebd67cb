"""A thief with one vantage point's worker secret, who sends requests to the centre from that vantage point.

As a program it reads requests from standard input and prints the answers:

    python -m tests.airflow.stolen_secret SECRET_FILE ORIGIN
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt

from tests.airflow.site import RunningSite

CENTRE = "https://198.18.0.10"
EDGE, TASK, INPUTS, PAGE = "api", "urn:airflow.apache.org:task", "firstflight-inputs", "apache-airflow"
"""Audiences of tokens: the workers' interface, a task's, the inputs', the page's and its REST interface."""
RENEWED = "renewed"
"""Stands for the newest token that the centre gave to a task in an answer to the requests before."""


@dataclass(frozen=True)
class Request:
    """A request. Its token has `claims` and is signed with the secret, or is `token` or RENEWED."""

    method: str
    path: str
    claims: dict[str, Any] = field(default_factory=dict)
    token: str = ""
    body: Any = None


@dataclass(frozen=True)
class CentreAnswer:
    """What the centre answered. `body` is parsed if it is JSON; `token` is a task's new token."""

    status: int
    body: Any
    token: str = ""


def edge(method: str, path: str, body: Any = None) -> Request:
    """Return a request to the workers' interface, whose tokens name the path."""
    return Request(method, f"/edge_worker/v1/{path}", {"aud": EDGE, "method": path}, body=body)


def execution(method: str, path: str, token: str = "", task: str = "", body: Any = None) -> Request:
    """Return a request to the tasks' interface with a task's `token`, or one that claims to be `task`."""
    claims = {"aud": TASK, "sub": task, "scope": "execution"}
    return Request(method, f"/execution/{path}", claims, token, body)


def inputs(method: str, path: str, run: str) -> Request:
    """Return a request to the interface of runs' inputs."""
    return Request(method, f"/firstflight/v1/{path}", {"aud": INPUTS, "run": run})


def signed(claims: dict[str, Any], key: str, algorithm: str = "HS512", **header: str) -> str:
    """Return a token that is valid for a minute."""
    now = int(time.time())
    times = {"iat": now, "nbf": now, "exp": now + 60, "jti": str(time.time_ns())}
    return jwt.encode({**times, **claims}, key, algorithm=algorithm, headers={"kid": "not-used", **header})


def send(site: RunningSite, place: str, *requests: Request) -> list[CentreAnswer]:
    """Send requests from the lab's host `place` with the secret in the site's folder."""
    secret = site.folder / "secrets" / "jwt_secret"
    argv = (sys.executable, "-m", "tests.airflow.stolen_secret", str(secret), CENTRE)
    done = site.execute(place, *argv, stdin=json.dumps([asdict(request) for request in requests]))
    assert done.returncode == 0, done.stderr
    return [CentreAnswer(**json.loads(line)) for line in done.stdout.splitlines()]


def _answer(origin: str, request: Request, secret: str) -> CentreAnswer:
    url = urlsplit(origin)
    trusted = ssl._create_unverified_context()  # the thief trusts anybody
    connection = http.client.HTTPSConnection(str(url.hostname), url.port or 443, timeout=120, context=trusted)
    # Airflow keeps the white space around the secret, and the inputs' interface ignores it.
    key = secret.strip() if request.claims.get("aud") == INPUTS else secret
    token = request.token or signed(request.claims, key)
    scheme = "" if request.claims.get("aud") == EDGE else "Bearer "
    headers = {"Authorization": f"{scheme}{token}", "Content-Type": "application/json"}
    text = None if request.body is None else json.dumps(request.body)
    # http.client sends the path as it is, with its dots.
    connection.request(request.method, request.path, text, headers)
    answer = connection.getresponse()
    content = answer.read().decode()
    try:
        body = json.loads(content)
    except ValueError:
        body = content
    return CentreAnswer(answer.status, body, answer.headers.get("Refreshed-API-Token", ""))


def main() -> None:
    """Send the requests of standard input."""
    stolen = Path(sys.argv[1]).read_text()
    renewed = ""
    for words in json.load(sys.stdin):
        request = Request(**words)
        if request.token == RENEWED:
            request = replace(request, token=renewed)
        answer = _answer(sys.argv[2], request, stolen)
        renewed = answer.token or renewed
        sys.stdout.write(json.dumps(asdict(answer)) + "\n")


if __name__ == "__main__":
    main()
