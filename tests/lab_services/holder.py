"""First process in a test's namespaces: adds the hosts' addresses to `lo`, and runs services and commands.

world.py starts it with the hosts' addresses and a resolv.conf. It reads one JSON request per line from
standard input, and writes one JSON reply per line to standard output. Requests are {"start": [service, ...],
"logs": DIR} or {"run": [argument, ...], "stdin": TEXT, "env": {...}}. It exits when standard input closes,
and all processes in its PID namespace exit with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError
from lab.declared.model import Service
from lab.system import processes


def set_up(resolv_conf: str, addresses: list[str]) -> None:
    """Bring up `lo`, add the addresses, and make the system's resolver use the lab's server."""
    commands = ["link set lo up", *(f"address add {address} dev lo" for address in addresses)]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(commands), text=True, check=True)
    subprocess.run(["mount", "--bind", resolv_conf, os.path.realpath("/etc/resolv.conf")], check=True)


def start(services: list[dict[str, Any]], logs: Path) -> dict[str, Any]:
    """Start services as the lab does, but all on this host."""
    wanted = [
        Service(
            **{
                **service,
                "argv": tuple(service["argv"]),
                "cwd": service["cwd"] and Path(service["cwd"]),
                "host": "",
            }
        )
        for service in services
    ]
    try:
        processes.wait_ready([processes.start(service, logs, realtime=False) for service in wanted])
    except FirstflightError as error:
        return {"error": str(error)}
    return {"error": None}


def run(request: dict[str, Any]) -> dict[str, Any]:
    """Run a command, and return the result."""
    done = subprocess.run(
        request["run"],
        input=request["stdin"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,  # as tests.waiting.PATIENCE_S, which a program started by its path cannot import
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
