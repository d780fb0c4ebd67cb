"""Answers requests by running a stack's own program once for each (downloader/clients/contract.py).

python -m testbed.stacks.own_program NAME/VERSION COMMAND... [KIND=LIST...]

In COMMAND, {host}, {ip}, {port}, {path} and {roots} come from the request, and {alpn} from its `http`. {log}
is the folder for the client's logs; arguments with {log} are dropped if the environment does not set QLOGDIR.
{body} is an empty folder for the response's body, to count its bytes. Without {body} the bytes are not
counted. {tickets} is the file for session tickets: one that the next requests with `resume` also use, or
/dev/null.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from downloader.clients import shared
from downloader.clients.contract import ClientAnswer, Request
from firstflight.errors import FirstflightError, UsageError
from testbed.choices import HTTP

_LISTS = ("blocklist=", "optout=", "allow-net=")
_LOG, _BODY = "{log}", "{body}"
_NO_TICKETS = "/dev/null"
_ALPN = {version: alpn for alpn, version in HTTP.items()}


def command(name: str, version: str, argv: list[str]) -> list[str]:
    """Return the argument list for a client that answers by `argv` and reports the name NAME/VERSION."""
    return [sys.executable, "-P", "-m", "testbed.stacks.own_program", f"{name}/{version}", *argv]


def filled(text: str, **names: str) -> str:
    """Return a text with known names in braces replaced; unknown names stay."""
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def answer(request: Request, command: list[str], tickets: Path) -> ClientAnswer:
    """Send a request with the stack's own program, and return the answer. `tickets`: the file for tickets."""
    with tempfile.TemporaryDirectory() as body:
        names = {
            "host": request.host,
            "ip": request.ip,
            "port": str(request.port),
            "path": request.path,
            "roots": request.roots,
            "alpn": _ALPN[request.http],
            "log": os.environ.get("QLOGDIR", ""),
            "body": body,
            "tickets": str(tickets) if request.resume else _NO_TICKETS,
        }
        argv = [filled(argument, **names) for argument in command if names["log"] or _LOG not in argument]
        began, begun = time.time_ns(), time.monotonic()
        end, detail = _run(argv, request.timeout_s)
        took_us = round((time.monotonic() - begun) * 1e6)
        came = sum(file.stat().st_size for file in Path(body).rglob("*") if file.is_file())
    return ClientAnswer(end=end, detail=detail, started_at=began, duration_us=took_us, body_bytes=came)


def _run(argv: list[str], timeout_s: float) -> tuple[str, str | None]:
    """Run the program; return how it ended, and the reason if it did not complete."""
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        return "timeout", "timed out"
    except OSError as error:
        return "failed", f"{argv[0]}: {error.strerror}"
    if done.returncode == 0:
        return "complete", None
    lines = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
    return "failed", f"status {done.returncode}: {(lines or ['it gave no reason'])[-1]}"


def _write_answer(answer: ClientAnswer, *, counted: bool) -> None:
    """Write an answer. Omit its body bytes unless `counted`: their zero would mean "not counted"."""
    known = {name: value for name, value in asdict(answer).items() if counted or name != "body_bytes"}
    sys.stdout.write(json.dumps(known, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> int:
    """Answer requests until end of standard input; return the exit status."""
    lists = [argument for argument in arguments if argument.startswith(_LISTS)]
    version, *command = [argument for argument in arguments if argument not in lists]
    counted = any(_BODY in argument for argument in command)
    with tempfile.TemporaryDirectory() as kept:
        return _answer_all(version, command, lists, Path(kept, "tickets"), counted=counted)


def _answer_all(version: str, command: list[str], lists: list[str], tickets: Path, *, counted: bool) -> int:
    try:
        permitted = shared.permitted(lists)
        shared.say_ready(version)
        for line in sys.stdin:
            try:
                request = Request.of(line)
            except (TypeError, ValueError) as error:
                raise UsageError(f"{line.strip()!r} is no request: {error}") from error
            why = shared.why_not(permitted, request.ip, request.host)
            ended = ClientAnswer("blocked", why) if why is not None else answer(request, command, tickets)
            _write_answer(ended, counted=counted)
    except FirstflightError as error:
        sys.stderr.write(f"testbed.own_program: {error}\n")
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
