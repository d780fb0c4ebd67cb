"""Peak memory of code in a separate process, from which tests compute the memory of an additional row."""

from __future__ import annotations

import subprocess
import sys

# VmHWM (proc(5)) starts with the program. ru_maxrss would include the process that started it.
_AND_TELL = """
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


def peak_bytes(code: str, *arguments: str) -> int:
    """Return the largest resident size of a Python process that runs `code` with `arguments`, in bytes.

    Mapped files count too, so it is an upper bound of anonymous memory.
    """
    done = subprocess.run(
        [sys.executable, "-c", code + _AND_TELL, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return int(done.stdout.split()[-1]) * 1024
