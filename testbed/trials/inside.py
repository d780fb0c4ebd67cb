"""Runs inside a guest: performs a cell's trials in sequence, over the cell's path.

python -m testbed.inside reads job.json in the working directory. There it writes trials.jsonl (a line after
each trial), path.pcap (captured at the client), path.keys and the logs of client, server and capture. In real
time (real_time.py) it runs in namespaces of the host, and also writes the lab link's lateness.csv.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from lab.hosts.certificates import Authority, make_authority
from testbed.choices import transport
from testbed.experiment.cell import Cell
from testbed.trials import programs
from testbed.trials.captures import block_files, second_flight
from testbed.trials.network import path

PAUSE_S = 2.0
"""Pause between trials, so that queues are empty: later packets belong to the previous trial."""
REAL_UNCOUNTED = 5
"""Number of uncounted trials that show a client's second flight in real time."""
FLUSHED_S = 0.3
"""Time until the lab's link has written a packet to its log: 100 ms, plus a margin for a busy machine."""


def main() -> None:
    """Run the job in job.json."""
    job = json.loads(Path("job.json").read_text(encoding="utf-8"))
    cell = Cell.model_validate(job["cell"])
    # Namespaces in a guest have a separate /run, so clients could see neither the job's folder nor the
    # preload there.
    folder = Path(job["folder"])
    folder.mkdir()
    if given := os.environ.get("LD_PRELOAD"):
        preload = folder / "random_device.so"
        shutil.copyfile(given, preload)
        os.environ["LD_PRELOAD"] = str(preload)
    try:
        _trials(job, cell, folder)
    finally:
        for file in sorted(folder.iterdir()):
            if file.suffix in {".jsonl", ".pcap", ".keys", ".log", ".qlog", ".sqlog", ".csv"}:
                shutil.copyfile(file, Path(file.name))
        # A server may write a log later than the client, so its name does not depend on the trial.
        for file in sorted(folder.glob(f"{block_files.SERVER_LOGS}/*")):
            shutil.copyfile(file, Path(f"server-{file.name}"))


def _trials(job: dict[str, Any], cell: Cell, folder: Path) -> None:
    for command in path.commands(cell, delayed=job["link"] is None):
        programs.run(command)
    link = None if job["link"] is None else programs.link(job["link"], cell, folder)
    authority = make_authority(folder)
    server = programs.server(job, cell, folder)
    over = transport(job["alpn"])
    captures = [programs.capture(folder, path.CLIENT, path.DEVICE, block_files.CAPTURE, over)]
    if cell.body_bytes:
        sent = f"{over} and src host {path.SERVER_IP}"
        captures.append(programs.capture(folder, path.LINK, path.TAP, block_files.SENT, sent))
    try:
        _repeat(job, cell, folder, authority)
    finally:
        # Their final reports show whether they are complete (testbed/trials/captures/whole_capture.py).
        for capture in captures:
            capture.send_signal(signal.SIGINT)
            capture.wait(programs.GRACE_S)
        if link is not None:
            time.sleep(FLUSHED_S)
            link.kill()
    server.kill()


def _repeat(job: dict[str, Any], cell: Cell, folder: Path, authority: Authority) -> None:
    """Run the trials, and append a line to trials.jsonl after each."""
    logs = folder / "logs"
    if cell.client_qlog:
        logs.mkdir()
        os.environ["QLOGDIR"] = str(logs)
    client = programs.ClientProgram(job["client"], folder)
    request = programs.request(job, cell, authority.path)
    if cell.handshake == "resumed":
        # Repetition 0 gets the first ticket.
        request["resume"] = True
    queues = (path.bottleneck(cell), (path.CLIENT, path.DEVICE))
    with (folder / block_files.TRIALS).open("w", encoding="utf-8") as out:
        # Repetition 0 is not counted (testbed/trials/block.py).
        for repetition in (*[0] * _uncounted(job, cell), *range(job["first"], job["last"] + 1)):
            if repetition == job["first"] and cell.drop_second_flight:
                cell = _with_second_flight(cell, job["dissect"], folder)
            # Repetition 0 drops no datagrams: it shows the flights of this client.
            scripts = path.scripts(cell, repetition) if repetition else []
            for _, script in scripts:
                programs.run(path.NFT, script.encode())
            before = [*(_drops(*queue, "tbf") for queue in queues), _lost_by_netem(cell)]
            started_ns = time.time_ns()
            answer = client.ask(request)
            ended = time.time_ns()
            time.sleep(PAUSE_S + path.longest_wait_s(cell))
            if cell.client_qlog:
                _keep_log(logs, folder, repetition)
            hit = {table: _hit_count(table) for table, _ in scripts}
            row = {
                "repetition": repetition,
                "begun_ns": started_ns,
                "ended_ns": ended,
                "client_version": client.version,
                "end": answer.get("end"),
                "detail": answer.get("detail"),
                "transfer_us": answer.get("duration_us"),
                "body_received": answer.get("body_bytes"),
                "dropped": hit.get(path.DROPS, 0) + _lost_by_netem(cell) - before[2],
                "reordered": hit.get(path.REORDERED, 0),
                "drop_to_server": cell.drop_to_server,
                "queue_drops": _drops(*queues[0], "tbf") - before[0],
                "queue_to_server_drops": _drops(*queues[1], "tbf") - before[1],
            }
            out.write(json.dumps(row) + "\n")
            out.flush()
    client.close()


def _uncounted(job: dict[str, Any], cell: Cell) -> int:
    """Return the number of uncounted trials before the first counted one."""
    # In real time, read timing changes how a client splits its flights: several trials show the usual split.
    return REAL_UNCOUNTED if job["link"] is not None and cell.drop_second_flight else 1


def _keep_log(logs: Path, folder: Path, repetition: int) -> None:
    """Rename the client's log for a trial after its repetition; delete the logs if there are several."""
    log_files = list(logs.iterdir())
    for file in log_files:
        if len(log_files) == 1:
            file.rename(folder / f"client-{repetition:04d}{file.suffix}")
        else:
            file.unlink()


def _with_second_flight(cell: Cell, dissect: str, folder: Path) -> Cell:
    """Return the cell with the client's second flight in its drops, as found in the capture so far."""
    argv = [
        dissect,
        "--kind",
        "quic_packet",
        "--keys",
        str(folder / block_files.KEYS),
        str(folder / block_files.CAPTURE),
    ]
    packets = [json.loads(line) for line in programs.run(argv).splitlines()]
    indices = second_flight.most_frequent(packets)
    if not indices:
        raise SystemExit("repetition 0 has no second flight of the client to drop")
    return cell.model_copy(update={"drop_to_server": tuple(sorted({*cell.drop_to_server, *indices}))})


def _hit_count(table: str) -> int:
    """Return how many datagrams of this trial a table of the link has dropped or held back."""
    shown = programs.run([*programs.namespace_prefix(path.LINK), "nft", "-j", "list", "table", "inet", table])
    rules = [entry["rule"]["expr"] for entry in json.loads(shown)["nftables"] if "rule" in entry]
    return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


def _lost_by_netem(cell: Cell) -> int:
    """Return the number of packets that netem has dropped at random since the guest's start."""
    lossy = (
        (path.CLIENT, cell.netem_loss_to_client_percent),
        (path.SERVER, cell.netem_loss_to_server_percent),
    )
    return sum(_drops(path.LINK, f"to_{end}", "netem") for end, percent in lossy if percent)


def _drops(namespace: str, device: str, kind: str) -> int:
    """Return how many packets a device's qdiscs of a kind have dropped since the guest's start."""
    shown = programs.run(["tc", "-n", namespace, "-j", "-s", "qdisc", "show", "dev", device])
    return sum(entry["drops"] for entry in json.loads(shown) if entry["kind"] == kind)


if __name__ == "__main__":
    main()
