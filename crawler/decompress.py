"""Decompresses untrusted files up to a size limit: a few kilobytes of gzip can hold gigabytes."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from firstflight.errors import InputError

MAX_BYTES = 1 << 30


def gunzip(content: bytes, path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return a gzip file's content (RFC 1952). Error messages refer to it as `path`.

    Raise InputError if the file is damaged or truncated, or if the content exceeds `max_bytes`.
    """
    return b"".join(_pieces(io.BytesIO(content), path, max_bytes))


def gunzipped(path: Path, max_bytes: int = MAX_BYTES) -> Iterator[bytes]:
    """Yield a gzip file's content in pieces of at most a megabyte. Raise InputError like `gunzip`."""
    with path.open("rb") as file:
        yield from _pieces(file, path, max_bytes)


def _pieces(file: BinaryIO, path: Path, max_bytes: int) -> Iterator[bytes]:
    remaining = max_bytes
    try:
        with gzip.GzipFile(fileobj=file) as stream:
            while piece := stream.read(1 << 20):
                remaining -= len(piece)
                if remaining < 0:
                    raise InputError(f"{path} has more than {max_bytes} bytes when decompressed: rejected")
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is no whole gzip file ({error}): remove it to fetch it again") from error
