"""Chooses the addresses to probe and writes the prober's target list (definitions.md, "Which addresses")."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.errors import InputError, UsageError
from firstflight.system import files

QTYPE_OF_FAMILY = {4: "A", 6: "AAAA"}

# targets.csv has its header in line 1; the prober names a target by its line.
FIRST_LINE = 2
# Lines that are in memory as Python's strings at a time.
BATCH = 65_536

# One row per line of targets.csv; `target` is the line's number (the prober's first column).
PLAN = pa.schema(
    [
        ("target", pa.uint32()),
        ("domain", pa.string()),
        ("ip", pa.string()),
        ("list_id", pa.string()),
        ("rank", pa.uint32()),
        ("address_rank", pa.uint16()),
        ("resolver", pa.string()),
    ]
)


def choose(dns_answer: Path, families: Sequence[int], all_addresses: bool) -> pa.Table:
    """Choose the addresses to probe from a resolve stage's record file.

    Per name and family the first address of the answer, or with `all_addresses` each one, once. Returns a
    table with the columns of PLAN, in the order of the file. InputError if the file cannot be read.
    """
    columns = ["domain", "qtype", "status", "address", "answer_rank", "list_id", "rank", "resolver"]
    try:
        answers = pq.ParquetFile(dns_answer).read(columns)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {dns_answer}: {error}; run the resolve stage again") from error
    wanted = pc.is_in(answers["qtype"], value_set=pa.array([QTYPE_OF_FAMILY[family] for family in families]))
    usable = pc.and_(pc.equal(answers["status"], "NOERROR"), pc.is_valid(answers["address"]))
    answers = answers.filter(pc.and_(wanted, usable))
    if not all_addresses:
        answers = answers.filter(pc.equal(answers["answer_rank"], 0))
    answers = _once(answers)
    targets = pa.array(range(FIRST_LINE, FIRST_LINE + answers.num_rows), pa.uint32())
    named = {"ip": "address", "address_rank": "answer_rank"}
    columns = [answers[named.get(name, name)] for name in PLAN.names[1:]]
    return pa.Table.from_arrays([targets, *columns], names=PLAN.names).cast(PLAN)


def _once(answers: pa.Table) -> pa.Table:
    """Leave out what is there already: a name twice in a list, or an address twice in an answer."""
    pairs = pc.binary_join_element_wise(answers["domain"], answers["address"], " ").combine_chunks()
    codes = pairs.dictionary_encode().indices.to_numpy()
    _, first = np.unique(codes, return_index=True)
    return answers if len(first) == len(codes) else answers.take(pa.array(np.sort(first)))


def write_targets(
    plan: pa.Table, port: int, path: Path, asn_of: Callable[[str], int | None], *, probed_already: bool
) -> None:
    """Write targets.csv (`ip,domain,port,group,asn`), one line per row of the plan, in its order.

    Both the group, which the prober can pause as a whole, and the AS number that its segments return are the
    address's origin AS.

    With `probed_already` the file must exist with the same content, because closed segments refer to its line
    numbers; UsageError if the DNS answers have changed since.
    """
    with files.replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["ip", "domain", "port", "group", "asn"])
            for batch in plan.select(["ip", "domain"]).to_batches(max_chunksize=BATCH):
                for ip, domain in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    asn = asn_of(ip) or ""
                    writer.writerow([ip, domain, port, asn, asn])
        same = path.is_file() and files.sha256_of(path) == files.sha256_of(temporary)
        if probed_already and not same:
            raise UsageError(
                f"{path} no longer matches the DNS answers or the port, and some of it has been probed: "
                "run the probe stage with --again"
            )
