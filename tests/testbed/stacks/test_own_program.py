"""A stack's own program as a client: its log and the response's body (test_sourced.py has the outcomes)."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
from pathlib import Path

import pytest

from downloader.clients.contract import Request
from testbed.stacks import own_program
from tests.waiting import PATIENCE_S

LOG = "--log={log}"
# The timeout of a minute only allows for a slow machine; no test waits for it.
REQUEST = Request("", "www.testbed.test", "127.0.0.2", 443, "/x", "x", timeout_s=60, max_bytes=1, roots="")


def answers(environment: dict[str, str], *argv: str, request: Request = REQUEST) -> list[dict[str, object]]:
    command = [*own_program.command("stand-in", "v1", list(argv)), "allow-net=127.0.0.0/8"]
    done = subprocess.run(
        command,
        input=2 * request.line(),
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
        env={**os.environ, **environment},
    )
    ready, *found = (json.loads(line) for line in done.stdout.splitlines())
    assert ready == {"ready": "stand-in/v1"} and len(found) == 2
    return found


@pytest.mark.parametrize(
    ("environment", "expected"), [({}, "a /x"), ({"QLOGDIR": "/logs"}, "a --log=/logs /x")]
)
def test_a_log_is_written_where_requested(environment: dict[str, str], expected: str) -> None:
    for found in answers(environment, "sh", "-c", 'echo "$@" >&2; exit 3', "-", "a", LOG, "{path}"):
        assert (found["end"], found["detail"]) == ("failed", f"status 3: {expected}")
        assert "body_bytes" not in found


def test_the_bytes_of_a_body_are_counted(tmp_path: Path) -> None:
    """Each response gets a new folder, which is removed afterwards."""
    script = 'printf 12345 > "$0/a"; mkdir "$0/sub"; printf 123 > "$0/sub/b"; echo "$0" >> "$1"'
    seen = tmp_path / "seen"
    for found in answers({}, "sh", "-c", script, "{body}", str(seen)):
        assert (found["end"], found["body_bytes"]) == ("complete", 8)
    folders = seen.read_text(encoding="utf-8").splitlines()
    assert len(set(folders)) == 2
    assert not any(Path(folder).exists() for folder in folders)


def test_without_a_body_zero_bytes_are_counted() -> None:
    assert [answer["body_bytes"] for answer in answers({}, "true", "{body}")] == [0, 0]


def test_requests_that_resume_share_a_file_for_tickets() -> None:
    """The file is new, outlives the request, and is removed with the program."""
    script = 'echo "$0" $(cat "$0"); echo ticket > "$0"; exit 3'
    resuming = dataclasses.replace(REQUEST, resume=True)
    first, second = answers({}, "sh", "-c", f"{{ {script}; }} >&2", "{tickets}", request=resuming)
    path = str(first["detail"]).removeprefix("status 3: ")
    assert second["detail"] == f"status 3: {path} ticket" and not Path(path).exists()
    for plain in answers({}, "sh", "-c", f"{{ {script}; }} >&2", "{tickets}"):
        assert plain["detail"] == "status 3: /dev/null"
