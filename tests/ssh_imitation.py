"""Runs a command as `ssh HOST` does: elsewhere, with its standard input forwarded and no signal.

The command is in a session of its own and outlives this program, but its input ends with it. What came first
is in its input when it starts: otherwise this program could be killed before it has forwarded anything.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(argv: list[str]) -> int:
    """Run `argv`; return its exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    its_input, forwarded = os.pipe()
    os.write(forwarded, os.read(0, 4096))
    command = subprocess.Popen(argv, stdin=its_input, start_new_session=True)
    os.close(its_input)

    def forward() -> None:
        while chunk := os.read(0, 4096):
            os.write(forwarded, chunk)
        os.close(forwarded)

    threading.Thread(target=forward, daemon=True).start()
    return command.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
