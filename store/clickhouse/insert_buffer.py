"""Keeps the blocks of an insert until the insert is complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from store.protocol.blocks import NativeBlock
from store.protocol.refusal import Refusal

NOT_ENOUGH_SPACE = 243

# An insert with more bytes moves from memory to the disk.
_MEMORY_BYTES = 16 << 20


class InsertBuffer:
    """An insert's blocks, in an unnamed file: in memory, or in the store's folder."""

    def __init__(self, folder: Path) -> None:
        """Create an empty buffer; a large one goes to `folder`."""
        self._folder = folder
        self._in_memory = True
        self._file: IO[bytes] = open(os.memfd_create("firstflight-insert"), "w+b")  # noqa: PTH123, SIM115
        self.rows = 0

    def add(self, block: NativeBlock) -> None:
        """Add one block; Refusal if the disk is full."""
        with _refusing():
            if self._in_memory and self._file.tell() > _MEMORY_BYTES:
                self._move_to_disk()
            self._file.write(block.native())
        self.rows += block.rows

    def add_text(self, rows: str) -> None:
        """Add rows from a statement's text."""
        with _refusing():
            self._file.write(rows.encode())

    def close(self) -> None:
        """Discard the blocks."""
        with contextlib.suppress(OSError):
            self._file.close()

    def _move_to_disk(self) -> None:
        on_disk = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.seek(0)
        shutil.copyfileobj(self._file, on_disk)
        self._file.close()
        self._file, self._in_memory = on_disk, False

    @property
    def path(self) -> str:
        """The path by which this process opens the file with all blocks."""
        with _refusing():
            self._file.flush()
        return f"/proc/self/fd/{self._file.fileno()}"


@contextmanager
def _refusing() -> Iterator[None]:
    """Turn an OSError into a Refusal for the client."""
    try:
        yield
    except OSError as error:
        raise Refusal(NOT_ENOUGH_SPACE, f"cannot keep the rows of an insert: {error.strerror}") from error
