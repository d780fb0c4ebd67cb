"""Runs a command in a guest: user-mode Linux with a simulated clock.

The clock stops while a program computes and jumps to the next timer when all programs sleep. The guest mounts
the host's root read-only. Its only network devices are loopback and the devices that the command creates. The
same command, files, seed and memory give the same results, byte for byte.
"""

from __future__ import annotations

import fcntl
import os
import select
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from firstflight.errors import FirstflightError, InputError, UsageError
from firstflight.system import children
from firstflight.system.files import explain_os_errors
from testbed.guest import kernel, processor
from testbed.guest.c_programs import parts
from testbed.guest.cache_folder import cache

SHARED_MEMORY = Path("/dev/shm")
"""Contains the guest's memory as an unlinked file, which the host frees however the guest exits."""
STARTS_AT_NS = 1_700_000_000_000_000_000
"""The guest's clock at its start: 2023-11-14 22:13:20 UTC."""
WRITABLE = ("/tmp", "/var/tmp")
"""Folders that are empty and in memory in every guest, like /run and /dev/shm."""
JOB = "/run/job"
"""The job's folder inside the guest, and the command's working directory."""
_OWN = ".guest"
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    # The processor's random numbers are not seeded. std::random_device uses them, and so does OpenSSL if
    # configured (OPENSSL_ia32cap(3): this clears bits 62 and 4 of the first word, bit 18 of the second).
    "LD_PRELOAD": f"{JOB}/{_OWN}/random_device.so",
    "OPENSSL_ia32cap": "~0x4000000000000010:~0x40000",
}


@dataclass(frozen=True)
class GuestResult:
    """Exit status (128 + N if signal N ended it; 127 if not found), output, the guest's time in ns.

    `cpu_s` is CPU time of the host, in seconds: it differs between two runs and is not compared.
    """

    status: int
    stdout: bytes
    stderr: bytes
    took_ns: int
    cpu_s: float = field(compare=False)


def run(
    argv: Sequence[str],
    folder: Path,
    *,
    seed: int = 1,
    limit_s: float = 600.0,
    memory_mb: int = 512,
    still: bool = True,
    environment: Mapping[str, str] | None = None,
    writable: Iterable[str] = (),
    visible: Iterable[Path] = (),
) -> GuestResult:
    """Run the command `argv` in a guest. It reads its files from `folder` and writes its results there.

    `seed` (0 to 2^64 - 1) determines all random numbers; use another seed for another repetition. `limit_s`
    is the time limit in seconds of the host's clock. If `still` is false, the clock advances while a program
    computes, as on the host. Programs that poll without reading the clock need this; their runs then differ.
    `environment` is added to ENVIRONMENT; the host's environment is not passed on. Folders in `writable` are
    empty and in memory, like WRITABLE. Processes that outlive the command are killed. Folders in `visible`
    are the host's, read-only, even inside an empty folder.

    UsageError if the guest cannot start here; FirstflightError if it exceeds the limit or fails.
    """
    if not 0 <= seed < 2**64:
        raise UsageError(f"the seed {seed} is not between 0 and 2^64 - 1: choose another")
    program, built = kernel.find(), parts()
    check_shared_memory(memory_mb)
    with _own_folder(folder) as scratch:
        shutil.copyfile(built.random_device, scratch / "random_device.so")
        variables = {**ENVIRONMENT, **(environment or {})}
        _write_list(scratch / "argv", argv)
        _write_list(scratch / "environment", (f"{name}={value}" for name, value in variables.items()))
        _write_list(scratch / "writable", (*WRITABLE, *writable))
        _write_list(scratch / "visible", (str(path.absolute()) for path in visible))
        # This line feeds the guest's random pool, so everything that differs between runs is in files.
        command = [str(program), f"mem={memory_mb}M", "root=/dev/root", "rootfstype=hostfs", "hostfs=/", "ro"]
        command += [f"init={built.init}", "con=null", "con0=fd:0,fd:1", "quiet", "umid=guest"]
        command += ["time-travel=inf-cpu" if still else "time-travel", f"time-travel-start={STARTS_AT_NS}"]
        host = {
            "LD_PRELOAD": str(built.seeded),
            "FIRSTFLIGHT_SEED": str(seed),
            "TMPDIR": str(SHARED_MEMORY),
            # The kernel creates a folder for itself below HOME; its working directory is the job's folder.
            "HOME": str(scratch.absolute()),
        }
        with (scratch / "console").open("wb") as console, processor.reserved(cache()) as processors:
            with processor.restricted_to(processors):
                process = children.start(
                    command, own_session=True, stdout=console, stderr=console, cwd=folder, env=host
                )
            cpu_s = _wait(process, limit_s)
        return _result(scratch, cpu_s)


def _wait(process: subprocess.Popen[bytes], limit_s: float) -> float:
    """Wait until the guest exits, kill its remaining processes, and return its CPU seconds."""
    try:
        ended = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(ended, select.POLLIN)
            if not poll.poll(limit_s * 1000):
                raise FirstflightError(
                    f"the guest did not end within {limit_s:g} s: look for a program that polls without "
                    "reading a clock, or for what keeps the machine busy"
                )
        finally:
            os.close(ended)
        # Count only this process: other guests may be running.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_utime + used.ru_stime
    finally:
        # All its host processes are in its process group.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _result(scratch: Path, cpu_s: float) -> GuestResult:
    status = scratch / "status"
    if not status.is_file():
        lines = (scratch / "console").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        reason = next((line for line in lines if line.startswith("guest: ") or "panic" in line), None)
        raise FirstflightError(f"the guest broke down: {reason or (lines or ['it gave no reason'])[0]}")
    number, took_ns = status.read_text().split()
    stdout, stderr = ((scratch / name).read_bytes() for name in ("stdout", "stderr"))
    return GuestResult(int(number), stdout, stderr, int(took_ns), cpu_s)


def check_shared_memory(*memory_mb: int) -> None:
    """Raise UsageError if SHARED_MEMORY cannot hold the memory of these guests at the same time.

    Reasons: it is missing, mounted noexec, or too small.
    """
    try:
        status = os.statvfs(SHARED_MEMORY)
    except OSError as error:
        raise UsageError(f"a guest needs {SHARED_MEMORY}, and it is missing: mount a tmpfs there") from error
    if status.f_flag & os.ST_NOEXEC:
        raise UsageError(
            f"a guest runs programs in {SHARED_MEMORY}, and it is mounted noexec: mount it with exec"
        )
    free_mb = status.f_bavail * status.f_frsize // 2**20
    if free_mb >= sum(memory_mb):
        return
    free = f"{SHARED_MEMORY} ({free_mb} MB free)"
    if len(memory_mb) == 1:
        raise UsageError(f"a guest of {memory_mb[0]} MB does not fit into {free}: make it larger")
    raise UsageError(
        f"{len(memory_mb)} guests at a time, which take up to {sum(memory_mb)} MB, do not fit into {free}: "
        "make it larger, or give fewer --jobs"
    )


@contextmanager
def _own_folder(folder: Path) -> Iterator[Path]:
    """Yield a new folder in the job's folder for the guest's own files; remove it at the end.

    InputError if the job's folder is missing; UsageError if another guest uses it.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise InputError(f"cannot read the job's folder {folder}: {error.strerror}") from error
    scratch = folder / _OWN
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another guest uses {folder}: give each its own folder") from None
        with explain_os_errors(scratch):
            # A killed guest left it.
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    finally:
        os.close(handle)


def _write_list(path: Path, strings: Iterable[str]) -> None:
    """Write strings in the format of testbed/guest/init.c: each terminated by a zero byte."""
    texts = list(strings)
    for text in texts:
        if "\0" in text:
            raise UsageError(f"a command line cannot contain zero bytes, but {text!r} does: remove them")
    path.write_bytes(b"".join(os.fsencode(text) + b"\0" for text in texts))
