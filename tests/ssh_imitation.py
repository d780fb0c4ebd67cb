"""Runs a command as `ssh HOST` does: elsewhere, with its standard input forwarded and no signal.

The command is in a session of its own and outlives this program, but its input ends with it.
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
    command = subprocess.Popen(argv, stdin=subprocess.PIPE, bufsize=0, start_new_session=True)

    def forward() -> None:
        assert command.stdin is not None
        while chunk := os.read(0, 4096):
            command.stdin.write(chunk)
        command.stdin.close()

    threading.Thread(target=forward, daemon=True).start()
    return command.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
