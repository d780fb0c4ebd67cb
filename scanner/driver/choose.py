"""Selects addresses to contact, and writes an engine's target list (definitions.md, "Which addresses")."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from firstflight.errors import InputError, UsageError
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.system import files
from scanner.driver.segments import BATCH

QTYPE_OF_FAMILY = {4: "A", 6: "AAAA"}
# Columns of the plan that have another name in DNS answers.
OF_ANSWER = {"ip": "address", "address_rank": "answer_rank"}

# Columns that say whether a row of DNS answers has an address.
_OF_ADDRESS = ("domain", "qtype", "status", "address")

# Line 1 of targets.csv is the header. The prober uses line numbers as target IDs.
FIRST_LINE = 2

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
_CHOSEN = PLAN.remove(0)


def resolved(run: Run, key: StageKey, *, promised: pa.Array | None = None) -> pa.Table:
    """Choose the addresses that the resolve stage found for `key`, as `choose` does with the run's settings.

    The addresses that the scan stage found follow, without a name; none, if that stage failed. Raise
    InputError if one of these stages has not run.
    """
    probe = run.settings.probe
    plan = choose(_dns_answer(run, key), probe.families, probe.all_addresses, promised=promised)
    if not run.settings.scan.enabled or without_scan(run, key) is not None:
        return plan
    scanned = _scanned(run.layout.scan_answer(key))
    return _numbered(pa.concat_tables([plan, scanned], promote_options="default"))


def without_scan(run: Run, key: StageKey) -> str | None:
    """Return the warning that the plan has only names, if the key's scan stage ended early; else `None`."""
    report = run.report("scan", key) if run.settings.scan.enabled else None
    if report is None or report.state == "done" or run.stage_is_running(report):
        return None
    return (
        f"only names are contacted, because the scan stage failed: {report.message or 'it was interrupted'}"
    )


def contacted_over_quic(run: Run, key: StageKey) -> pa.Array | None:
    """Return the names that a stage may contact over QUIC (`probe.https_record`); `None`: all names.

    Raise InputError if the names are not resolved.
    """
    return promised_h3(_dns_answer(run, key)) if run.settings.probe.https_record == "h3" else None


def _dns_answer(run: Run, key: StageKey) -> Path:
    path = run.layout.dns_answer(key)
    if not path.is_file():
        raise InputError(f"there is no {path}: run the resolve stage of {key.vantage} first")
    return path


def choose(
    dns_answer: Path, families: Sequence[int], all_addresses: bool, *, promised: pa.Array | None = None
) -> pa.Table:
    """Select the addresses to probe from a resolve stage's record file.

    Per name and family, select the answer's first address, or with `all_addresses` each distinct address.
    With `promised`, select only these names (`promised_h3`). Return a table with the columns of PLAN, in the
    order of the file. Raise InputError if the file cannot be read.
    """
    usable = _numbered(_usable(dns_answer, families, all_addresses, promised))
    first = usable.group_by(["domain", "ip"]).aggregate([("target", "min")])["target_min"]
    plan = select_rows(usable, np.isin(usable["target"].to_numpy(), first.to_numpy()))
    del usable, first
    pa.default_memory_pool().release_unused()
    return plan


def promised_h3(dns_answer: Path) -> pa.Array:
    """Return the names whose HTTPS record has `h3` in its alpn parameter, as in the view https_promise.

    An alias record (priority 0) has no parameters (RFC 9460 2.4.2), so it promises nothing.
    """
    names: set[str] = set()
    for batch in _batches(dns_answer, ["domain", "qtype", "status", "https_priority", "https_alpn"]):
        mask = pc.and_(pc.equal(batch["qtype"], "HTTPS"), pc.equal(batch["status"], "NOERROR"))
        mask = pc.and_(mask, pc.fill_null(pc.greater(batch["https_priority"], 0), False))
        records = batch.filter(mask)
        pairs = zip(records["domain"].to_pylist(), records["https_alpn"].to_pylist(), strict=True)
        names.update(domain for domain, alpn in pairs if "h3" in (alpn or ()))
    return pa.array(sorted(names), pa.string())


def names_left_out(dns_answer: Path, families: Sequence[int], promised: pa.Array) -> int:
    """Return how many names have an address in one of these families and are not in `promised`.

    These are the names that `choose` omits with `promised`. Raise InputError if the file cannot be read.
    """
    left_out = []
    for batch in _batches(dns_answer, _OF_ADDRESS):
        names = batch.filter(_with_address(batch, families))["domain"].unique()
        left_out.append(names.filter(pc.invert(pc.is_in(names, value_set=promised))))
    return len(pa.chunked_array(left_out, pa.string()).unique())


def select_rows(plan: pa.Table, mask: npt.NDArray[np.bool_]) -> pa.Table:
    """Return the rows in a plan that are set in `mask`, numbered again."""
    return _numbered(plan.filter(pa.array(mask)))


def _usable(
    dns_answer: Path, families: Sequence[int], all_addresses: bool, promised: pa.Array | None
) -> pa.Table:
    """Return the rows with an address to probe. `promised`: the names that may be selected; `None`: all."""
    columns = [OF_ANSWER.get(name, name) for name in _CHOSEN.names]
    usable = []
    for batch in _batches(dns_answer, {*_OF_ADDRESS, "answer_rank", *columns}):
        mask = _with_address(batch, families)
        if not all_addresses:
            mask = pc.and_(mask, pc.equal(batch["answer_rank"], 0))
        if promised is not None:
            mask = pc.and_(mask, pc.is_in(batch["domain"], value_set=promised))
        usable.append(batch.filter(mask).select(columns).rename_columns(_CHOSEN.names).cast(_CHOSEN))
    return pa.Table.from_batches(usable, _CHOSEN)


def _with_address(batch: pa.RecordBatch, families: Sequence[int]) -> pa.BooleanArray:
    """Return which rows of DNS answers have an address of one of these families."""
    qtypes = pa.array([QTYPE_OF_FAMILY[family] for family in families])
    mask = pc.and_(pc.is_in(batch["qtype"], value_set=qtypes), pc.is_valid(batch["address"]))
    return pc.and_(mask, pc.equal(batch["status"], "NOERROR"))


def _scanned(scan_answer: Path) -> pa.Table:
    """Return the addresses that answered a scan, without a name."""
    if not scan_answer.is_file():
        raise InputError(f"there is no {scan_answer}: run the scan stage first")
    ips = pa.chunked_array((batch["ip"] for batch in _batches(scan_answer, ["ip"], "scan")), pa.string())
    return pa.table({"domain": pa.repeat("", len(ips)), "ip": ips})


def _batches(path: Path, columns: Iterable[str], stage: str = "resolve") -> Iterator[pa.RecordBatch]:
    try:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(BATCH, columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}; run the {stage} stage again") from error


def _numbered(rows: pa.Table) -> pa.Table:
    """Return rows as a plan, numbered like the lines of targets.csv."""
    targets = pa.array(np.arange(FIRST_LINE, FIRST_LINE + rows.num_rows), pa.uint32())
    columns = [targets, *(rows[name] for name in _CHOSEN.names)]
    return pa.table(columns, PLAN.names).cast(PLAN).combine_chunks()


def write_targets(
    plan: pa.Table,
    port: int,
    path: Path,
    asn_of: Callable[[str], int | None],
    *,
    probed_already: bool,
    done: str = "probed",
) -> None:
    """Write targets.csv (`ip,domain,port,group,asn`) with one line per row of the plan, in order.

    The group, which the prober can pause as a whole, and the AS number, which its segments return, are both
    the address's origin AS.

    With `probed_already`, the file must exist with the same content, because closed segments refer to its
    line numbers. Raise UsageError if the DNS answers have changed. `done`: what the stage did, for the
    message.
    """
    with files.replacing(path) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["ip", "domain", "port", "group", "asn"])
            for batch in plan.select(["ip", "domain"]).to_batches(max_chunksize=BATCH):
                ips, domains = (column.to_pylist() for column in batch.columns)
                asns = [asn_of(ip) or "" for ip in ips]
                writer.writerows(zip(ips, domains, repeat(port), asns, asns))
        is_unchanged = path.is_file() and files.sha256_of(path) == files.sha256_of(temporary)
        if probed_already and not is_unchanged:
            raise UsageError(
                f"{path} no longer matches the DNS answers or the port, and some of it has been {done}: "
                f"run the {path.parent.name} stage with --again"
            )
