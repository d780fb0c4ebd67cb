"""The supervisor: the first process in the lab's PID namespace, so that its exit stops the whole lab.

lab/launch.py starts it in new mount, network and PID namespaces. It reports progress on standard output, one
JSON line per step, waits for `go` on standard input until its process number is recorded, and runs until
killed.

    python -m lab.supervisor --state DIR [--capture-edges] [--realtime]
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from firstflight.errors import FirstflightError
from firstflight.system import binaries
from lab import control
from lab.declared import internet
from lab.declared.internet import Internet
from lab.declared.model import Service
from lab.hosts import servers, services
from lab.state import StateFolder
from lab.system import mounts, network, processes
from lab.system.namespaces import entering
from lab.system.processes import RunningService
from lab.system.programs import program

FIRST_EPOCH = 1


def tell(**fields: Any) -> None:
    """Report to the process that starts the lab."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


class Supervisor:
    """The running lab."""

    def __init__(self, state: StateFolder, net: Internet) -> None:
        self.state = state
        self.internet = net
        self.epoch = FIRST_EPOCH
        self.running: list[RunningService] = []
        self.failed: dict[str, str] = {}

    def raise_lab(self, *, capture_edges: bool, realtime: bool) -> None:
        """Start everything; return when every service has reported ready."""
        mounts.own_run()
        network.raise_network(self.internet)
        tell(step="network", hosts=len(self.internet.hosts))

        link_config = self.state.folder / "link.json"
        network.write_link_config(self.internet, link_config, self.state.lateness)
        all_services = [link_service(link_config, realtime)]
        all_services += services.services(self.internet, self.state.folder)
        all_services += servers.services(self.internet, self.state.folder)
        if capture_edges:
            # Before the servers are ready, so that captures are complete.
            all_services[1:1] = [
                capture_service(h.name, self.state) for h in self.internet.hosts if h.kind == "edge"
            ]
        self._own_files()
        self.running = [
            processes.start(service, self.state.logs, realtime=realtime) for service in all_services
        ]
        processes.wait_ready(self.running)
        self._write_epoch()
        tell(step="services", services=len(self.running))

    def _own_files(self) -> None:
        """Mount the lab's resolver and authority, and write the lists of the campaign."""
        of_kind = {host.kind: host for host in self.internet.hosts}
        resolver = of_kind.get("resolver") or of_kind["dns"]
        resolv = self.state.folder / "resolv.conf"
        resolv.write_text(f"nameserver {resolver.v4}\noptions timeout:5 attempts:5\n", encoding="ascii")
        mounts.own_file(resolv, Path("/etc/resolv.conf"))
        mounts.own_file(self.state.authority, Path("/etc/ssl/certs/ca-certificates.crt"))

    def serve(self, server: socket.socket) -> None:
        """Reap, and answer requests to the control socket, until killed."""
        while True:
            if select.select([server], [], [], 0.5)[0]:
                control.answer(server, self.handle)
            for running in self.running:
                name = running.service.name
                status = running.process.poll()
                if status is not None and name not in self.failed:
                    self.failed[name] = f"ended with status {status}; see {running.log}"
                    print(f"{name} {self.failed[name]}", file=sys.stderr, flush=True)

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request: `status`, or `epoch` with a number."""
        if request.get("do") == "epoch":
            self.apply_epoch(int(request["epoch"]))
        return {
            "epoch": self.epoch,
            "epochs": self.internet.epochs,
            "services": {r.service.name: self.failed.get(r.service.name, "up") for r in self.running},
        }

    def apply_epoch(self, epoch: int) -> None:
        """Move the varying names; return when the new zones are served."""
        services.apply_epoch(self.internet, self.state.folder, epoch)
        for host, argv in services.epoch_commands(self.internet, self.state.folder):
            done = subprocess.run(
                argv, capture_output=True, text=True, check=False, timeout=20, preexec_fn=entering(host)
            )
            if done.returncode != 0:
                raise FirstflightError(f"epoch {epoch} is not served: {done.stderr.strip()}")
        self.epoch = epoch
        self._write_epoch()

    def _write_epoch(self) -> None:
        self.state.epoch_file.write_text(f"{self.epoch}\n", encoding="ascii")


def link_service(config: Path, realtime: bool) -> Service:
    """Return the link emulator, a service of the core."""
    argv = [str(binaries.find("firstflight-link")), "--config", str(config)]
    return Service("link", "", (*argv, "--realtime") if realtime else tuple(argv), ready=r"^READY$")


def capture_service(host: str, state: StateFolder) -> Service:
    """Return a capture of all QUIC and ICMP packets of an edge, with nanosecond stamps."""
    argv = [program("tcpdump", "tcpdump"), "-i", "eth0", "-n", "-s", "0", "-U", "--nano", "--immediate-mode"]
    argv += ["-B", "8192", "-w", str(state.captures / f"{host}.pcap")]
    if os.geteuid() == 0:
        argv += ["-Z", "root"]
    argv += ["udp port 443 or icmp or icmp6"]
    return Service(f"capture-{host}", host, tuple(argv), ready=r"listening on eth0")


def main() -> int:
    """Start the lab and keep it up; reports every error as one sentence."""
    parser = argparse.ArgumentParser(prog="python -m lab.supervisor", description=__doc__)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--capture-edges", action="store_true")
    parser.add_argument("--realtime", action="store_true")
    options = parser.parse_args()
    state = StateFolder(options.state)

    # /proc is the machine's: `self` there is this process's number outside its PID namespace.
    tell(step="started", pid=int(Path("/proc/self").readlink().name))
    if sys.stdin.readline() != "go\n":
        return 1  # the starting process is gone without recording this one, so nothing could stop it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = time.monotonic()
    try:
        supervisor = Supervisor(state, internet.load(state.behaviour_file))
        supervisor.raise_lab(capture_edges=options.capture_edges, realtime=options.realtime)
        # Before the report, because its reader may send a request immediately.
        server = control.listen(state.control)
    except FirstflightError as error:
        tell(error=str(error), status=error.exit_status)
        return error.exit_status
    tell(step="ready", seconds=round(time.monotonic() - started, 2))
    null_device = os.open("/dev/null", os.O_RDWR)
    os.dup2(null_device, 0)
    os.dup2(2, 1)
    supervisor.serve(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
