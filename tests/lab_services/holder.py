"""First process of a test's namespaces: adds the hosts' addresses to `lo`, runs services and commands.

Started by world.py with the hosts' addresses and a resolv.conf. One JSON request per line on standard input,
one JSON reply per line on standard output: {"start": [service, ...], "logs": DIR} or {"run": [argument, ...],
"stdin": TEXT, "env": {...}}. It ends with its standard input, and so does everything in its PID namespace.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError
from lab import processes
from lab.model import Service


def set_up(resolv_conf: str, addresses: list[str]) -> None:
    """Bring up the only link and make the system's resolver use the lab's server."""
    commands = ["link set lo up", *(f"address add {one} dev lo" for one in addresses)]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
    subprocess.run(["mount", "--bind", resolv_conf, os.path.realpath("/etc/resolv.conf")], check=True)


def start(services: list[dict[str, Any]], logs: Path) -> dict[str, Any]:
    """Start services as the lab does, but all on this one host."""
    wanted = [
        Service(**{**one, "argv": tuple(one["argv"]), "cwd": one["cwd"] and Path(one["cwd"]), "host": ""})
        for one in services
    ]
    try:
        processes.wait_ready([processes.start(one, logs, realtime=False) for one in wanted])
    except FirstflightError as error:
        return {"error": str(error)}
    return {"error": None}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run one command to its end."""
    done = subprocess.run(
        request["run"],
        input=request["stdin"],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, **request["env"]},
    )
    return {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}


def main() -> None:
    """Serve requests; see the module's docstring."""
    set_up(sys.argv[1], sys.argv[2:])
    print("{}", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        reply = start(request["start"], Path(request["logs"])) if "start" in request else run(request)
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
