"""Trims a key's captures: removes bytes that no key decrypts, once the rows have been checked.

The probe only computes the keys of Initials, so the content of Handshake packets cannot be decrypted. Trimmed
captures also omit the padding of Initials, which can be restored, and datagrams that belong to no connection,
because anybody can send them to a probe's port.

The dissector writes trimmed copies next to the captures (`firstflight-dissect --trim`), in the pass that
writes the rows, and checks the records as it writes them. The copies replace the captures if the rows agree
with the prober's. If the stage is killed at any moment, each capture is complete or trimmed, and the next
dissect stage removes unfinished copies.
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
# Above this share of probes that differ from their captures, there is a fault: all packets are evidence.
MOST_DIFFERING = 0.01


@dataclass(frozen=True)
class Copies:
    """A folder of trimmed copies. Their captures are in its parent folder."""

    folder: Path

    @classmethod
    def beside(cls, captures: Path) -> Copies:
        """Return the copies for the folder of `captures`, after removing the copies from a killed stage."""
        copies = cls(captures / FOLDER)
        copies.remove()
        return copies

    def remove(self) -> None:
        """Remove the copies."""
        with files.explain_os_errors(self.folder):
            if self.folder.exists():
                shutil.rmtree(self.folder)

    def begin(self, excepted: Sequence[str] = ()) -> list[str]:
        """Create the folder and return the dissector's options for trimmed copies.

        `excepted`: the client's connection IDs of connections that stay complete.
        """
        self.remove()
        with files.explain_os_errors(self.folder):
            self.folder.mkdir()
        options = ["--trim", str(self.folder), "--trim-others"]
        if excepted:
            files.write_text(self.folder / EXCEPT, "".join(f"{cid}\n" for cid in excepted))
            options += ["--trim-except", str(self.folder / EXCEPT)]
        return options

    def replace(self, captures: Sequence[Path]) -> None:
        """Replace each capture with its copy, and write the counts of trimmed packets to capture.json."""
        for path in captures:
            copy = self.folder / path.name
            if not copy.is_file():
                continue
            trimmed, unpadded, removed = _counts(copy.with_name(f"{copy.name}.json"))
            with files.explain_os_errors(path):
                if any((trimmed, unpadded, removed)) and copy.stat().st_size < path.stat().st_size:
                    copy.replace(path)
                    # Sync before capture.json declares the capture trimmed.
                    files.sync([path])
            capture_files.set_trimmed(path, trimmed, unpadded, removed)


def reason_against(agreement: Agreement, dropped: int = 0) -> str | None:
    """Return the reason against trimming the captures, or `None`.

    Each of the `dropped` packets, which the kernel did not capture, explains one differing probe.
    """
    if agreement.connections and not agreement.compared:
        return (
            f"no probe in the prober's rows matches any of their {agreement.connections} connections: "
            "restore the files that belong together, then run the stage with --again"
        )
    differing = len(agreement.differing)
    if differing > MOST_DIFFERING * agreement.compared + dropped:
        return (
            f"{differing} of {agreement.compared} probes differ from them; "
            "`firstflight trace` shows the packets of one"
        )
    return None


def _counts(path: Path) -> tuple[int, int, int]:
    """Return the numbers for a copy's packets that were trimmed, lost their padding, and were removed."""
    counts = files.read_json(path)
    try:
        return int(counts["trimmed"]), int(counts["unpadded"]), int(counts["removed"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} has no count of trimmed packets ({error}): run the stage again") from error
