"""Shows the progress of a child process that reads files from start to end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from firstflight.errors import Interrupted
from firstflight.system import children
from firstflight.system.reporting import busy
from firstflight.system.reporting.progress import FILE_EVERY_S, Progress

# The reason that such a process gives while it waits for data from the disk.
DISK = "reading"


def wait_for_exit(
    process: subprocess.Popen[bytes], paths: Sequence[Path], folder: Path, label: str
) -> tuple[bytes, bytes]:
    """Wait for a process like `children.wait_for_exit`, and return the same values.

    While it runs, `folder` has a progress.json with the megabytes read from `paths`, the speed, and what
    limits it.
    """
    total = megabytes(sum(path.stat().st_size for path in paths if path.is_file()))
    limit = busy.Busy(DISK, partial(busy.cpu_s_of, process.pid))
    with Progress(folder, f"{label}, MB", total, limit) as progress:
        try:
            while True:
                try:
                    stdout, stderr = process.communicate(timeout=FILE_EVERY_S)
                    break
                except subprocess.TimeoutExpired:
                    done = busy.bytes_read_by(process.pid)
                    if done is not None:
                        # All its other reads, such as libraries, are less than a megabyte.
                        progress.update(min(megabytes(done), total))
        except KeyboardInterrupt as error:
            children.stop(process)
            raise Interrupted("stopped by a signal; the stage can be run again") from error
        except BaseException:
            children.stop(process)  # it must not write while the output is being removed
            raise
        if process.returncode == 0:
            progress.update(total)
    return stdout or b"", stderr or b""


def megabytes(count: int) -> int:
    """Return whole megabytes (10^6), rounded."""
    return round(count / 1e6)
