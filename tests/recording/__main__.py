"""`python -m tests.recording OUT [NAME...]`: record all scenarios, or the named ones, into the folder OUT."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.recording import quic, tcp
from tests.recording.network import alone


def main() -> None:
    alone()
    out, *names = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in names or [*quic.RECORDINGS, *tcp.RECORDINGS]:
            maker = quic.record if name in quic.RECORDINGS else tcp.record
            maker(name, Path(folder) / name, Path(out))
            print(name, (Path(out) / f"{name}.pcap").stat().st_size)


main()
