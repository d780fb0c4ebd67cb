"""Runs inside a guest: the trials of one cell, one after the other, over the cell's path.

python -m testbed.inside: reads job.json in the working directory and leaves there trials.jsonl (a line when a
trial is over), path.pcap (at the client), path.keys and the logs of client, server and capture. In real time
(testbed/real.py) it runs in namespaces of the host, and leaves lateness.csv of the lab's link, too.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from firstflight.system.lines import next_line
from lab.certificates import Authority, issue, make_authority
from testbed import path, second_flight, server_config, wire
from testbed.cell import Cell

NAME = "www.testbed.test"
PAUSE_S = 2.0
"""Between trials, when the path's queues are empty: what is still sent belongs to the trial before."""
READY_S = 60.0
GRACE_S = 5.0
REAL_UNCOUNTED = 5
"""Trials that show a client's second flight in real time."""
FLUSHED_S = 0.3
"""Until the lab's link has written a packet to its log: 100 ms, and what a busy machine adds."""
_BUFFER_KB = 32_768
"""Of a capture: some 16,000 packets. With tcpdump's own 2 MB it misses some of a server with GSO."""


class Client:
    """A client in its namespace; it is started again after it died."""

    def __init__(self, argv: list[str], folder: Path) -> None:
        self.argv = [*_in(path.CLIENT), *argv, f"allow-net={path.NETWORK}"]
        self.folder = folder
        self.version = ""
        self._process = self._start()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the client's answer, or one that says that it gave none."""
        if self._process.poll() is not None:
            self._process = self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            answer = json.loads(_line(self._process, request["timeout_s"] + GRACE_S))
            if isinstance(answer, dict):
                return answer
        except (BrokenPipeError, TimeoutError, ValueError) as error:
            self._process.kill()
            self._process.wait()
            return {"end": "died", "detail": f"the client gave no answer: {error}"}
        return {"end": "died", "detail": "the client's answer is no object"}

    def close(self) -> None:
        """End the client: its input is closed."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(GRACE_S)

    def _start(self) -> subprocess.Popen[bytes]:
        keys = {**os.environ, "SSLKEYLOGFILE": str(self.folder / "path.keys"), "QUIC_GO_DISABLE_GSO": "true"}
        with (self.folder / "client.log").open("ab") as log:
            process = subprocess.Popen(
                self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0, env=keys
            )
        self.version = str(json.loads(_line(process, READY_S))["ready"])
        return process


def main() -> None:
    """Do what job.json says."""
    job = json.loads(Path("job.json").read_text(encoding="utf-8"))
    cell = Cell.model_validate(job["cell"])
    # Namespaces of a guest have a /run of their own: clients would see neither the job's folder nor the
    # preload.
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


def _trials(job: dict[str, Any], cell: Cell, folder: Path) -> None:
    for command in path.commands(cell, delayed=job["link"] is None):
        _run(command)
    link = None if job["link"] is None else _link(job["link"], cell, folder)
    authority = make_authority(folder)
    server = _server(job, cell, folder)
    captures = [_capture(folder, path.CLIENT, path.DEVICE, "path.pcap", "udp")]
    if cell.body_bytes:
        sent = f"udp and src host {path.SERVER_IP}"
        captures.append(_capture(folder, path.LINK, path.TAP, "sender.pcap", sent))
    try:
        _repeat(job, cell, folder, authority)
    finally:
        # Their reports say whether they are whole (testbed/capture.py).
        for capture in captures:
            capture.send_signal(signal.SIGINT)
            capture.wait(GRACE_S)
        if link is not None:
            time.sleep(FLUSHED_S)
            link.kill()
    server.kill()


def _repeat(job: dict[str, Any], cell: Cell, folder: Path, authority: Authority) -> None:
    """Do the trials, and leave a line for each in trials.jsonl when it is over."""
    logs = folder / "logs"
    if cell.client_qlog:
        logs.mkdir()
        os.environ["QLOGDIR"] = str(logs)
    client = Client(job["client"], folder)
    request = {
        "url": f"https://{NAME}/",
        "host": NAME,
        "ip": path.SERVER_IP,
        "port": path.PORT,
        "path": "/",
        "user_agent": "firstflight testbed",
        "timeout_s": job["timeout_s"],
        "max_bytes": 1 << 30,
        "roots": str(authority.path),
        "verify": True,
        "http": job["http"],
    }
    queues = (path.bottleneck(cell), (path.CLIENT, path.DEVICE))
    with (folder / "trials.jsonl").open("w", encoding="utf-8") as out:
        # Repetition 0 is not counted (testbed/block.py).
        for repetition in (*[0] * _uncounted(job, cell), *range(job["first"], job["last"] + 1)):
            if repetition == job["first"] and cell.drop_second_flight:
                cell = _with_second_flight(cell, job["dissect"], folder)
            # Repetition 0 loses nothing: it shows what is a flight of this client.
            scripts = path.scripts(cell, repetition) if repetition else []
            for _, script in scripts:
                _run(path.NFT, script.encode())
            before = [*(_drops(*queue, "tbf") for queue in queues), _lost_by_netem(cell)]
            begun = time.time_ns()
            answer = client.ask(request)
            ended = time.time_ns()
            time.sleep(PAUSE_S + path.longest_wait_s(cell))
            if cell.client_qlog:
                _keep_log(logs, folder, repetition)
            hit = {table: _hit(table) for table, _ in scripts}
            row = {
                "repetition": repetition,
                "begun_ns": begun,
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
    """Return how many trials come before the first that is counted."""
    # In real time a client divides its flights as packets happen to be read: several show what is usual.
    return REAL_UNCOUNTED if job["link"] is not None and cell.drop_second_flight else 1


def _keep_log(logs: Path, folder: Path, repetition: int) -> None:
    """Name the client's log of a trial after its repetition; one is kept if there is one, no more."""
    written = list(logs.iterdir())
    for one in written:
        if len(written) == 1:
            one.rename(folder / f"client-{repetition:04d}{one.suffix}")
        else:
            one.unlink()


def _with_second_flight(cell: Cell, dissect: str, folder: Path) -> Cell:
    """Return the cell with the datagrams of the client's second flight, as the capture so far shows it."""
    argv = [dissect, "--kind", "quic_packet", "--keys", str(folder / "path.keys"), str(folder / "path.pcap")]
    packets = [json.loads(line) for line in _run(argv).splitlines()]
    found = second_flight.usual(packets)
    if not found:
        raise SystemExit("repetition 0 has no second flight of the client to drop")
    return cell.model_copy(update={"drop_to_server": tuple(sorted({*cell.drop_to_server, *found}))})


def _server(job: dict[str, Any], cell: Cell, folder: Path) -> subprocess.Popen[bytes]:
    """Start the server with the cell's answer and wait until it listens."""
    files = issue(
        make_authority(folder),
        "server",
        [NAME],
        chain_bytes=cell.certificate_bytes,
        key_kind=cell.certificate_key,
    )
    configuration = server_config.configuration(
        cell, NAME, job["alpn"], files, launch_times=job["launch_times"], log=folder / "sender.jsonl"
    )
    file = folder / "server.json"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    with (folder / "server.log").open("wb") as log:
        argv = [*_in(path.SERVER), *job["server"], "--config", str(file)]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, bufsize=0)
    if _line(process, READY_S).strip() != b"READY":
        raise SystemExit("the server does not listen: see server.log")
    return process


def _link(program: str, cell: Cell, folder: Path) -> subprocess.Popen[bytes]:
    """Put the lab's link into the path, and wait until it delays what passes."""
    for command in wire.commands():
        _run(command)
    file = folder / "link.json"
    file.write_text(json.dumps(wire.configuration(cell, folder / "lateness.csv")), encoding="utf-8")
    with (folder / "link.log").open("wb") as log:
        argv = [*_in(wire.NAMESPACE), program, "--config", str(file), "--realtime"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, bufsize=0)
    if _line(process, READY_S).strip() != b"READY":
        raise SystemExit("the lab's link does not start: see link.log")
    return process


def _capture(folder: Path, namespace: str, device: str, name: str, wanted: str) -> subprocess.Popen[bytes]:
    """Start a capture and wait until it sees packets."""
    argv = [*_in(namespace), "tcpdump", "-i", device, "--nano", "--immediate-mode", "-U"]
    # While the clock stands still a server hands over all of its window before tcpdump gets the processor.
    argv += ["-B", str(_BUFFER_KB), "-Z", "root", "-w", str(folder / name), *wanted.split()]
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stderr=out)
    for _ in range(1000):
        if b"listening on" in log.read_bytes():
            return process
        time.sleep(0.01)
    raise SystemExit(f"tcpdump does not start: see {log.name}")


def _line(process: subprocess.Popen[bytes], limit_s: float) -> bytes:
    """Return a program's next line; what it wrote if it ended; TimeoutError after `limit_s` seconds."""
    assert process.stdout is not None
    return next_line(process.stdout, limit_s)


def _hit(table: str) -> int:
    """Return how many datagrams of this trial a table of the link has dropped or held back."""
    shown = _run([*_in(path.LINK), "nft", "-j", "list", "table", "inet", table])
    rules = [one["rule"]["expr"] for one in json.loads(shown)["nftables"] if "rule" in one]
    return sum(part["counter"]["packets"] for rule in rules for part in rule if "counter" in part)


def _lost_by_netem(cell: Cell) -> int:
    """Return how many packets netem has lost since the guest's start, where it does."""
    lossy = (
        (path.CLIENT, cell.netem_loss_to_client_percent),
        (path.SERVER, cell.netem_loss_to_server_percent),
    )
    return sum(_drops(path.LINK, f"to_{end}", "netem") for end, percent in lossy if percent)


def _drops(namespace: str, device: str, kind: str) -> int:
    """Return how many packets a device's qdiscs of a kind have dropped since the guest's start."""
    shown = _run(["tc", "-n", namespace, "-j", "-s", "qdisc", "show", "dev", device])
    return sum(one["drops"] for one in json.loads(shown) if one["kind"] == kind)


def _in(namespace: str) -> list[str]:
    return ["ip", "netns", "exec", namespace]


def _run(argv: list[str], given: bytes = b"") -> bytes:
    done = subprocess.run(argv, input=given, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(argv)}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


if __name__ == "__main__":
    main()
