"""Runs a command like `ssh HOST`: in another session, with standard input forwarded but without signals.

The command outlives this program, but its input closes when this program exits. The first chunk of input is
in the pipe before the command starts. Otherwise, a kill of this program could happen before it forwards any
input.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main(argv: list[str]) -> int:
    """Run `argv`; return the exit status."""
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
