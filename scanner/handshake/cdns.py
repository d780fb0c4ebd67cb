"""The CDN of each handshake by its names, its response and its certificate (docs/definitions.md).

In memory are 10 bytes for each certificate and response, and the names that were connected with.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.as_map import OTHERS
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.driver.choose import QTYPE_OF_FAMILY
from scanner.driver.mapped import BATCH
from scanner.handshake.sides import Numbers, hashes, tables

Codes = npt.NDArray[np.int16]
_UNKNOWN = -1


class Cdns:
    """Fills the columns cdn_by_cname, cdn_by_header and cdn_by_certificate."""

    def __init__(self, methods: Methods, segments: Path, plan: pa.Table, dns_answer: Path) -> None:
        """Look at all responses and certificates in `segments`, and at the aliases of the plan's names.

        InputError if `dns_answer` cannot be read; without such a file the aliases are not known.
        """
        self._methods = methods
        self._numbers: dict[str, int] = {}
        self._responses = _Found(self._of_responses(segments))
        self._certificates = _Found(self._of_certificates(segments))
        self._names: pa.Array = pc.unique(plan["domain"]).cast(pa.string())
        self._by_name = {family: np.full(len(self._names), _UNKNOWN, np.int16) for family in QTYPE_OF_FAMILY}
        if dns_answer.is_file():
            self._read_names(dns_answer)

    def columns(self, block: pa.Table) -> dict[str, pa.Array]:
        """Return the three columns of rows of quic_handshake; null where a method had nothing to look at."""
        leaves = block["leaf_sha256"].to_pylist()
        there = np.fromiter((leaf is not None for leaf in leaves), np.bool_, len(leaves))
        certificates = np.fromiter((_start(leaf or "") for leaf in leaves), np.int64, len(leaves))
        return {
            "cdn_by_cname": self._texts(self._of_names(block)),
            "cdn_by_header": self._texts(self._responses.of(hashes(block))),
            "cdn_by_certificate": self._texts(np.where(there, self._certificates.of(certificates), _UNKNOWN)),
        }

    def _of_responses(self, segments: Path) -> Iterator[tuple[Numbers, Codes]]:
        for table in tables(segments, "http3_response"):
            found = (self._methods.by_headers(json.loads(text)) for text in table["headers"].to_pylist())
            yield hashes(table), self._codes(found)

    def _of_certificates(self, segments: Path) -> Iterator[tuple[Numbers, Codes]]:
        columns = ["subject", "issuer", "sans", "error"]
        for table in tables(segments, "certificate"):
            rows = zip(*(table[name].to_pylist() for name in columns), strict=True)
            starts = np.fromiter(map(_start, table["sha256"].to_pylist()), np.int64, table.num_rows)
            yield starts, self._codes(_of_certificate(self._methods, *row) for row in rows)

    def _read_names(self, dns_answer: Path) -> None:
        columns = ["domain", "qtype", "status", "address", "cname_chain"]
        families = {qtype: family for family, qtype in QTYPE_OF_FAMILY.items()}
        qtypes = pa.array(list(families))
        try:
            for batch in pq.ParquetFile(dns_answer).iter_batches(4 * BATCH, columns=columns):
                usable = pc.and_(pc.is_in(batch["qtype"], value_set=qtypes), pc.is_valid(batch["address"]))
                answers = batch.filter(pc.and_(usable, pc.equal(batch["status"], "NOERROR")))
                places = pc.index_in(answers["domain"], value_set=self._names)
                asked = answers.filter(pc.is_valid(places))
                rows = zip(
                    *(asked[name].to_pylist() for name in ("domain", "qtype", "cname_chain")),
                    places.drop_null().to_pylist(),
                    strict=True,
                )
                for domain, qtype, chain, place in rows:
                    codes = self._by_name[families[qtype]]
                    if codes[place] == _UNKNOWN:  # all addresses of an answer have one chain
                        codes[place] = self._code(self._methods.by_names([domain, *chain]))
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"cannot read {dns_answer}: {error}; run the resolve stage again") from error

    def _of_names(self, block: pa.Table) -> Codes:
        places = pc.index_in(block["domain"].combine_chunks(), value_set=self._names)
        known = pc.is_valid(places).to_numpy(zero_copy_only=False)
        index = places.fill_null(0).to_numpy(zero_copy_only=False)
        six = pc.match_substring(block["ip"].combine_chunks(), ":").to_numpy(zero_copy_only=False)
        if not len(self._names):
            return np.full(block.num_rows, _UNKNOWN, np.int16)
        return np.where(known, np.where(six, self._by_name[6][index], self._by_name[4][index]), _UNKNOWN)

    def _code(self, cdn: str | None) -> int:
        return _UNKNOWN if cdn is None else self._numbers.setdefault(cdn, len(self._numbers))

    def _codes(self, found: Iterable[str | None]) -> Codes:
        return np.array([self._code(cdn) for cdn in found], np.int16)

    def _texts(self, codes: Codes) -> pa.Array:
        names = pa.array(list(self._numbers), pa.string())
        return names.take(pa.array(codes, pa.int16(), mask=codes == _UNKNOWN))


class _Found:
    """Codes by number, sorted; of a number that is there twice either has the same code."""

    def __init__(self, parts: Iterable[tuple[Numbers, Codes]]) -> None:
        numbers, codes = zip(*parts, strict=True)  # at least one part
        joined = np.concatenate(numbers)
        order = np.argsort(joined, kind="stable")
        self._numbers: Numbers = joined[order]
        self._codes: Codes = np.concatenate(codes)[order]

    def of(self, numbers: Numbers) -> Codes:
        """Return the code of each number, _UNKNOWN of those that are not there."""
        if not len(self._numbers):
            return np.full(len(numbers), _UNKNOWN, np.int16)
        places = np.minimum(np.searchsorted(self._numbers, numbers), len(self._numbers) - 1)
        return np.where(self._numbers[places] == numbers, self._codes[places], _UNKNOWN)


def _of_certificate(methods: Methods, subject: str, issuer: str, sans: str, error: str | None) -> str | None:
    """Return the CDN of a certificate; None if no rule fits what could be read, and not all could."""
    found = methods.by_certificate(subject, issuer, json.loads(sans or "[]"))
    return None if found == OTHERS and error is not None else found


def _start(digest: str) -> int:
    """Return the first 8 bytes of a hash in hex as a number: enough to tell certificates apart."""
    return int.from_bytes(bytes.fromhex(digest)[:8], "big", signed=True)
