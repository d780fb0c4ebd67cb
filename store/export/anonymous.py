"""Replaces names, certificates and the addresses of clients by keyed hashes (HMAC-SHA-256).

Equal values have equal hashes in all tables of an export, so counts and joins stay the same. Addresses of
servers stay: the tables by CDN and network need them.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from firstflight.errors import InputError
from schemas import records
from store.export.identity import Holds, of
from store.export.opted_out import HOST

if TYPE_CHECKING:
    import pyarrow as pa

KEY_BYTES = 32
_NAME_DIGITS = 32
_CLIENT_DIGITS = 16


class Anonymiser:
    """Hashes values by a secret key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._of: dict[Holds, Callable[[str], str]] = {
            Holds.NAME: self.name,
            Holds.CLIENT: self.client,
            Holds.CERTIFICATE: self.digest,
            Holds.URL: self.url,
            Holds.TEXT: self.text,
        }

    def digest(self, text: str) -> str:
        """Return 64 hex digits."""
        return hmac.new(self._key, text.encode(), sha256).hexdigest()

    def name(self, name: str) -> str:
        """Return a name below `.invalid` (RFC 2606 2); the empty name stays."""
        return f"{self.digest(name.lower().strip('.'))[:_NAME_DIGITS]}.invalid" if name else name

    def client(self, text: str) -> str:
        """Return a text that is no address."""
        return f"client-{self.digest(text)[:_CLIENT_DIGITS]}"

    def url(self, url: str) -> str:
        """Return a URL with the scheme of `url`, a hashed host and a hash of the rest."""
        try:
            parts = urlsplit(url)
            host = parts.hostname or ""
        except ValueError:
            return self.client(url)
        return f"{parts.scheme or 'https'}://{self.name(host)}/{self.digest(url)[:_NAME_DIGITS]}"

    def text(self, text: str) -> str:
        """Return the text with every name in it hashed."""
        return HOST.sub(lambda match: self.name(match[0]), text)

    def rows(self, table: pa.Table, kind: records.Kind) -> pa.Table:
        """Return the rows in a record file with hashed values."""
        for number, name in enumerate(table.column_names):
            replace = self._of.get(of(kind.column(name)))
            if replace is not None:
                column = _replaced(table[name].combine_chunks(), replace)
                table = table.set_column(number, table.schema.field(number), column)
        return table


def read_key(path: Path | None) -> bytes:
    """Return the key in a file of 64 hex digits; without a file a random one, which is not kept.

    InputError if the file has no key.
    """
    if path is None:
        return secrets.token_bytes(KEY_BYTES)
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the key in {path}: {error}") from error
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise InputError(f"{path} has no key: write 64 hex digits, as `openssl rand -hex 32` prints them")
    return bytes.fromhex(text)


def _replaced(column: pa.Array, replace: Callable[[str], str]) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_list(column.type):
        ends = pc.cumulative_sum(pc.list_value_length(column))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends.cast(pa.int32())])
        return pa.ListArray.from_arrays(offsets, _replaced(column.flatten(), replace), type=column.type)
    coded = column.dictionary_encode()
    made = [None if text is None else replace(text) for text in coded.dictionary.to_pylist()]
    return pa.array(made, column.type).take(coded.indices)
