"""What the lab keeps on disk (default `var/lab`), and whether it is up.

Light on imports: `firstflight lab exec` runs through here every time.
"""

from __future__ import annotations

import json
import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

from firstflight.errors import FirstflightError, UsageError

VARIABLE = "FIRSTFLIGHT_LAB"
"""Environment variable naming the state folder; the option `--state` wins over it."""


@dataclass(frozen=True)
class Record:
    """The supervisor's process, seen from outside, told apart from any later one of the same number."""

    pid: int
    start_ticks: int
    boot_id: str
    rootless: bool
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class State:
    """The folder and what stands where in it."""

    folder: Path

    @property
    def record_file(self) -> Path:
        """The supervisor's `Record` as JSON; there while the lab is up, or after it was killed."""
        return self.folder / "lab.json"

    @property
    def behaviour_file(self) -> Path:
        """The behaviour file in force; only `lab truth` and the lab itself read it."""
        return self.folder / "internet.toml"

    @property
    def epoch_file(self) -> Path:
        """The epoch in force, one number."""
        return self.folder / "epoch"

    @property
    def control(self) -> Path:
        """Unix socket on which the supervisor takes requests."""
        return self.folder / "control.sock"

    @property
    def logs(self) -> Path:
        """One file per service, and supervisor.log."""
        return self.folder / "logs"

    @property
    def captures(self) -> Path:
        """HOST.pcap of every edge, with `--capture-edges`."""
        return self.folder / "captures"

    @property
    def authority(self) -> Path:
        """The lab's root certificate (PEM)."""
        return self.folder / "certificates" / "ca.pem"

    @property
    def lateness(self) -> Path:
        """The link emulator's log (lab/link/README.md)."""
        return self.folder / "lateness.csv"

    def write_record(self, record: Record) -> None:
        """Write the record whole or not at all."""
        part = self.record_file.with_suffix(".part")
        part.write_text(json.dumps(record.__dict__), encoding="utf-8")
        part.replace(self.record_file)

    def running(self) -> Record | None:
        """Give the record if its process lives; a record that a killed lab left counts as none."""
        try:
            fields = json.loads(self.record_file.read_text(encoding="utf-8"))
            record = Record(**{**fields, "hosts": tuple(fields["hosts"])})
        except FileNotFoundError:
            return None
        except OSError as error:
            raise FirstflightError(
                f"cannot read {self.record_file}: {error.strerror}; name another folder by --state"
            ) from error
        except (ValueError, KeyError, TypeError) as error:
            raise FirstflightError(f"{self.record_file} is broken ({error}): remove it") from error
        alive = record.boot_id == boot_id() and start_ticks(record.pid) == record.start_ticks
        return record if alive else None

    def require(self) -> Record:
        """Give the record of the lab that is up; `UsageError` if it is not."""
        record = self.running()
        if record is None:
            raise UsageError(
                f"the lab is not up (state in {self.folder}); raise it with `firstflight lab up`"
            )
        return record


def locate(option: str | None) -> State:
    """Find the state folder: the option, else $FIRSTFLIGHT_LAB, else var/lab here."""
    return State(Path(option or os.environ.get(VARIABLE) or "var/lab").absolute())


def boot_id() -> str:
    """Tell this boot of the machine from others: process numbers and start times begin anew with each."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Give a process's start time in clock ticks since boot; None if it is gone or a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything; what follows its last parenthesis is plain.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def kill(record: Record, timeout_s: float = 5.0) -> None:
    """Kill the supervisor, and with its PID namespace everything in the lab; returns when it is gone."""
    try:
        process = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor stands for one process; checked after opening, it cannot be someone else's.
        if start_ticks(record.pid) != record.start_ticks:
            return
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if not select.select([process], [], [], timeout_s)[0]:
            raise FirstflightError(
                f"the lab's supervisor (process {record.pid}) did not end within {timeout_s} s"
            )
    except PermissionError as error:
        raise FirstflightError(f"the lab belongs to another user (process {record.pid})") from error
    finally:
        os.close(process)
