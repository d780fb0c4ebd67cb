"""Peak memory of code in a process of its own, from which tests compute what one more row takes."""

from __future__ import annotations

import subprocess
import sys

# VmHWM (proc(5)) begins with the program. ru_maxrss would begin with the process that started it.
_AND_TELL = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


def peak_bytes(code: str, *arguments: str) -> int:
    """Return the largest resident size of a Python process that runs `code` with `arguments`, in bytes.

    Mapped files count too, so it is an upper limit of anonymous memory.
    """
    done = subprocess.run(
        [sys.executable, "-c", code + _AND_TELL, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout.split()[-1]) * 1024
