"""Transfers in turn from two servers that request different ACK ratios (ack_cost.py starts this).

Runs in new namespaces and real time. Reads job.json in the working directory, and writes transfers.jsonl: a
line after each transfer. Client and servers stay up, so that no transfer contains their start.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

from bench import process
from lab.hosts.certificates import make_authority
from testbed.experiment.cell import Cell
from testbed.trials import programs
from testbed.trials.network import path

TRANSFERS = "transfers.jsonl"
_BURST_BYTES = 3028
"""The rate limit's bucket: two frames."""
_QUEUE_PACKETS = 2000
"""More packets than the client's flow control permits in flight, so that no queue drops any."""
_SETTLED_S = 0.2
"""Time after a transfer until its last packets have arrived."""


def main() -> None:
    """Run the job in job.json."""
    job = json.loads(Path("job.json").read_text(encoding="utf-8"))
    if job["realtime"]:
        process.run_first()
    cells = {ratio: Cell.model_validate({**job["cell"], "ack_ratio": ratio}) for ratio in job["ratios"]}
    # Without a body, the path has no setting of the whole machine.
    for command in path.commands(Cell.model_validate({**job["cell"], "body_bytes": 0}), delayed=False):
        programs.run(command)
    # The limit is outside of the server's namespace: there, waiting datagrams would fill the socket's buffer.
    programs.run(f"tc -n {path.SERVER} qdisc del dev {path.DEVICE} root".split())
    servers: dict[int, tuple[subprocess.Popen[bytes], dict[str, Any]]] = {}
    for place, (ratio, cell) in enumerate(cells.items()):
        folder = Path(job["folder"]) / f"ratio-{ratio}"
        folder.mkdir()
        port = path.PORT + place
        server = programs.server(job, cell, folder, port)
        roots = make_authority(folder).path
        servers[ratio] = (server, programs.request(job, cell, roots, port))
    client = programs.ClientProgram(job["client"], Path(job["folder"]))
    with Path(TRANSFERS).open("w", encoding="utf-8") as out:
        for rate_mbit in job["rates_mbit"]:
            _limit(rate_mbit)
            for ratio in job["ratios"]:
                _transfer(client, *servers[ratio])
            for round_ in range(1, job["rounds"] + 1):
                # Forwards and backwards: a steady change of the machine affects both ratios equally.
                for ratio in (*job["ratios"], *reversed(job["ratios"])):
                    measured = _transfer(client, *servers[ratio])
                    line = {"rate_mbit": rate_mbit, "round": round_, "ratio": ratio, **measured}
                    out.write(json.dumps({**line, "client_version": client.version}) + "\n")
                    out.flush()
    client.close()
    for server, _ in servers.values():
        server.kill()


def _limit(rate_mbit: float) -> None:
    """Limit the rate towards the client."""
    rate = f"rate {rate_mbit * 1e6:.0f}bit burst {_BURST_BYTES} latency 1000ms"
    device = f"tc -n {path.LINK} qdisc replace dev to_{path.CLIENT}"
    programs.run(f"{device} root handle 1: tbf {rate}".split())
    programs.run(f"{device} parent 1:1 pfifo limit {_QUEUE_PACKETS}".split())


def _transfer(
    client: programs.ClientProgram, server: subprocess.Popen[bytes], request: dict[str, Any]
) -> dict[str, Any]:
    """Return the costs of a transfer: packets and CPU time of both processes in ns."""
    before = _counters(client, server)
    answer = client.ask(request)
    time.sleep(_SETTLED_S)
    after = _counters(client, server)
    names = ("received", "sent", "client_ns", "server_ns")
    costs = dict(zip(names, (end - start for start, end in zip(before, after, strict=True)), strict=True))
    return {**costs, "took_us": answer.get("duration_us"), "end": answer["end"], "detail": answer["detail"]}


def _counters(client: programs.ClientProgram, server: subprocess.Popen[bytes]) -> tuple[int, ...]:
    shown = programs.run(["ip", "-n", path.CLIENT, "-j", "-s", "link", "show", "dev", path.DEVICE])
    (device,) = json.loads(shown)
    counted = device["stats64"]
    return (
        counted["rx"]["packets"],
        counted["tx"]["packets"],
        process.cpu_ns(client.pid),
        process.cpu_ns(server.pid),
    )


if __name__ == "__main__":
    main()
