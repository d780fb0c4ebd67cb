"""The CDN of each handshake, from the name and its aliases in the resolve stage (docs/definitions.md).

Memory holds the contacted names, and four bytes for each.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.driver.choose import QTYPE_OF_FAMILY
from scanner.driver.segments import BATCH

Codes = npt.NDArray[np.int16]
_UNKNOWN = -1
_COLUMNS = ["domain", "qtype", "status", "address", "cname_chain"]


class Aliases:
    """Fills the column cdn_by_cname."""

    def __init__(self, methods: Methods, plan: pa.Table, dns_answer: Path) -> None:
        """Read the aliases of the plan's names from `dns_answer`. Without this file they are unknown.

        Raise InputError if the file cannot be read.
        """
        self._methods = methods
        self._numbers: dict[str, int] = {}
        self._names: pa.Array = pc.unique(plan["domain"]).cast(pa.string())
        self._by_name = {family: np.full(len(self._names), _UNKNOWN, np.int16) for family in QTYPE_OF_FAMILY}
        if dns_answer.is_file():
            try:
                for batch in pq.ParquetFile(dns_answer).iter_batches(4 * BATCH, columns=_COLUMNS):
                    self._read(batch)
            except (OSError, pa.ArrowException) as error:
                raise InputError(f"cannot read {dns_answer}: {error}; run the resolve stage again") from error

    def cdns(self, block: pa.Table) -> pa.Array:
        """Return the CDN of each row (`domain`, `ip`), by the aliases for its address family.

        Null if the aliases are unknown.
        """
        codes = self._codes(block)
        names = pa.array(list(self._numbers), pa.string())
        return names.take(pa.array(codes, pa.int16(), mask=codes == _UNKNOWN))

    def _read(self, batch: pa.RecordBatch) -> None:
        families = {qtype: family for family, qtype in QTYPE_OF_FAMILY.items()}
        usable = pc.and_(
            pc.is_in(batch["qtype"], value_set=pa.array(list(families))), pc.is_valid(batch["address"])
        )
        answers = batch.filter(pc.and_(usable, pc.equal(batch["status"], "NOERROR")))
        indices = pc.index_in(answers["domain"], value_set=self._names)
        planned = answers.filter(pc.is_valid(indices))
        columns = (planned[name].to_pylist() for name in ("domain", "qtype", "cname_chain"))
        for domain, qtype, chain, index in zip(*columns, indices.drop_null().to_pylist(), strict=True):
            codes = self._by_name[families[qtype]]
            if codes[index] == _UNKNOWN:  # all addresses in an answer have the same chain
                cdn = self._methods.by_names([domain, *chain])
                codes[index] = self._numbers.setdefault(cdn, len(self._numbers))

    def _codes(self, block: pa.Table) -> Codes:
        if not len(self._names):
            return np.full(block.num_rows, _UNKNOWN, np.int16)
        indices = pc.index_in(block["domain"].combine_chunks(), value_set=self._names)
        is_known = pc.is_valid(indices).to_numpy(zero_copy_only=False)
        index = indices.fill_null(0).to_numpy(zero_copy_only=False)
        is_ipv6 = pc.match_substring(block["ip"].combine_chunks(), ":").to_numpy(zero_copy_only=False)
        return np.where(
            is_known, np.where(is_ipv6, self._by_name[6][index], self._by_name[4][index]), _UNKNOWN
        )
