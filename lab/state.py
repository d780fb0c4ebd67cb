"""The lab's state on disk (default `var/lab`), and whether it is up.

Imports little: every `firstflight lab exec` runs through this module.
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
"""Environment variable with the state folder; the option `--state` overrides it."""


@dataclass(frozen=True)
class Record:
    """The supervisor's process as seen from outside; distinct from a later process with the same number."""

    pid: int
    start_ticks: int
    boot_id: str
    rootless: bool
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class StateFolder:
    """The state folder and the paths in it."""

    folder: Path

    @property
    def record_file(self) -> Path:
        """The supervisor's `Record` as JSON; exists while the lab is up, or after it was killed."""
        return self.folder / "lab.json"

    @property
    def lock(self) -> Path:
        """Lock file; held while the lab is being started."""
        return self.folder / "lock"

    @property
    def behaviour_file(self) -> Path:
        """The current behaviour file; only `lab truth` and the lab itself read it."""
        return self.folder / "internet.toml"

    @property
    def epoch_file(self) -> Path:
        """The current epoch, one number."""
        return self.folder / "epoch"

    @property
    def control(self) -> Path:
        """Unix socket on which the supervisor accepts requests."""
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
        """Write the record atomically."""
        part = self.record_file.with_suffix(".part")
        part.write_text(json.dumps(record.__dict__), encoding="utf-8")
        part.replace(self.record_file)

    def running(self) -> Record | None:
        """Return the record if its process is alive; ignore a record for a killed lab."""
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
        """Return the record of the running lab; UsageError if it is not up."""
        record = self.running()
        if record is None:
            raise UsageError(
                f"the lab is not up (state in {self.folder}); start it with `firstflight lab up`"
            )
        return record


def locate(option: str | None) -> StateFolder:
    """Return the state folder: the option, else $FIRSTFLIGHT_LAB, else var/lab here."""
    return StateFolder(Path(option or os.environ.get(VARIABLE) or "var/lab").absolute())


def boot_id() -> str:
    """Return the id of this boot. Process numbers and start times are unique only within a boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def start_ticks(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; `None` if it has exited or is a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may contain anything; the fields follow the last parenthesis.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


# On a busy machine, the kernel takes long to end all processes in a lab. Exceeding this time is an error.
END_TIMEOUT_S = 120.0


def kill(record: Record, timeout_s: float = END_TIMEOUT_S) -> None:
    """Kill the supervisor, and with the PID namespace everything in the lab; return when it has exited.

    Raises FirstflightError if it still runs after `timeout_s`.
    """
    try:
        process = os.pidfd_open(record.pid)
    except ProcessLookupError:
        return
    try:
        # The descriptor refers to one process. The check after opening makes sure that it is the right one.
        if start_ticks(record.pid) != record.start_ticks:
            return
        signal.pidfd_send_signal(process, signal.SIGKILL)
        # select() refuses descriptors above 1023.
        poll = select.poll()
        poll.register(process, select.POLLIN)
        if not poll.poll(timeout_s * 1000):
            raise FirstflightError(
                f"the lab's supervisor (process {record.pid}) did not exit within {timeout_s:.0f} s"
            )
    except PermissionError as error:
        raise FirstflightError(f"the lab belongs to another user (process {record.pid})") from error
    finally:
        os.close(process)
