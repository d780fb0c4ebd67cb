"""Trims the captures of a key: what nobody can ever open is removed, once the rows have been checked.

The probe computes no keys beyond those of Initials, so what is sealed in a Handshake packet is of no use to
anybody. The padding of Initials is left out as well, and can be put back. Datagrams that belong to no
connection are left out: anybody can send them to a probe's port. The dissector writes trimmed copies
(`firstflight-dissect --trim`) beside the captures, in the pass that writes the rows, and checks each record
as it writes it. Copies take the place of their captures when the rows agree with the prober's. Killed at any
moment, the captures are there, whole or trimmed; the next dissect stage removes what was begun.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dissector.agreement import Agreement
from firstflight import capture_files
from firstflight.errors import InputError
from firstflight.system import files

FOLDER = "trimmed.part"
EXCEPT = "except.txt"
# Above this share of probes that differ from their captures, something is wrong: all packets are evidence.
MOST_DIFFERING = 0.01


@dataclass(frozen=True)
class Copies:
    """The folder with trimmed copies of captures, which are in the folder above it."""

    folder: Path

    @classmethod
    def beside(cls, captures: Path) -> Copies:
        """Begin again in the folder of `captures`, without what a killed stage left there."""
        copies = cls(captures / FOLDER)
        copies.remove()
        return copies

    def remove(self) -> None:
        """Remove the copies."""
        with files.explain_os_errors(self.folder):
            if self.folder.exists():
                shutil.rmtree(self.folder)

    def begin(self, but: Sequence[str] = ()) -> list[str]:
        """Make the folder; return the dissector's options for copies in which connections with these client's
        connection IDs stay whole."""
        self.remove()
        with files.explain_os_errors(self.folder):
            self.folder.mkdir()
        options = ["--trim", str(self.folder), "--trim-others"]
        if but:
            files.write_text(self.folder / EXCEPT, "".join(f"{cid}\n" for cid in but))
            options += ["--trim-except", str(self.folder / EXCEPT)]
        return options

    def replace(self, captures: Sequence[Path]) -> None:
        """Put each copy in its capture's place, and its numbers of trimmed packets into capture.json."""
        for path in captures:
            copy = self.folder / path.name
            if not copy.is_file():
                continue
            trimmed, unpadded, removed = _counts(copy.with_name(f"{copy.name}.json"))
            with files.explain_os_errors(path):
                if trimmed + unpadded + removed and copy.stat().st_size < path.stat().st_size:
                    copy.replace(path)
                    # Before anything says that the capture is trimmed.
                    files.sync([path])
            capture_files.set_trimmed(path, trimmed, unpadded, removed)


def reason_against(agreement: Agreement, dropped: int = 0) -> str | None:
    """Return why captures are not trimmed although they could be; None if nothing is against it.

    Each of the `dropped` packets, which the kernel did not capture, explains one probe that differs.
    """
    if agreement.connections and not agreement.compared:
        return (
            f"none of their {agreement.connections} connections is of a probe in the prober's rows: "
            "put back those that belong together, then run the stage with --again"
        )
    differing = len(agreement.differing)
    if differing > MOST_DIFFERING * agreement.compared + dropped:
        return (
            f"{differing} of {agreement.compared} probes differ from them; "
            "`firstflight trace` shows the packets of one"
        )
    return None


def _counts(path: Path) -> tuple[int, int, int]:
    """Return how many packets of a copy were trimmed, how many lack their padding, how many were left out."""
    counts = files.read_json(path)
    try:
        return int(counts["trimmed"]), int(counts["unpadded"]), int(counts["removed"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} has no count of trimmed packets ({error}): run the stage again") from error
