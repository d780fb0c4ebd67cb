"""Selects addresses to contact, and writes an engine's target list (definitions.md, "Which addresses")."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firstflight.errors import InputError, UsageError
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.system import files
from scanner.driver.mapped import BATCH, batches, mapped
from scanner.driver.pairs import repeated

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


def resolved(run: Run, key: StageKey, scratch: Path, *, promised: pa.Array | None = None) -> pa.Table:
    """Choose the addresses that the resolve stage found for `key`, as `choose` does with the run's settings.

    The addresses that the scan stage found follow, without a name; none, if that stage failed. Raise
    InputError if one of these stages has not run.
    """
    probe = run.settings.probe
    plan = choose(_dns_answer(run, key), probe.families, probe.all_addresses, scratch, promised=promised)
    if not run.settings.scan.enabled or without_scan(run, key) is not None:
        return plan
    scanned = _scanned(run.layout.scan_answer(key), FIRST_LINE + plan.num_rows)
    named = (pa.Table.from_batches([batch]) for batch in plan.to_batches())
    return mapped(chain(named, scanned), PLAN, scratch)


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
    dns_answer: Path,
    families: Sequence[int],
    all_addresses: bool,
    scratch: Path,
    *,
    promised: pa.Array | None = None,
) -> pa.Table:
    """Select the addresses to probe from a resolve stage's record file.

    Per name and family, select the answer's first address, or with `all_addresses` each distinct address.
    With `promised`, select only these names (`promised_h3`). Return a table with the columns of PLAN, in the
    order of the file, mapped from a temporary file in the folder `scratch`. Raise InputError if the file
    cannot be read.
    """
    answers = mapped(_usable(dns_answer, families, all_addresses, promised), PLAN, scratch)
    repeats = repeated(answers, scratch)
    if not len(repeats):
        return answers
    mask = np.ones(answers.num_rows, dtype=bool)
    mask[repeats] = False
    return select_rows(answers, mask, scratch)


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


def select_rows(plan: pa.Table, mask: npt.NDArray[np.bool_], scratch: Path) -> pa.Table:
    """Return the rows in a plan that are set in `mask`, numbered again, mapped like the plan."""
    return mapped(_selected(plan, mask), PLAN, scratch)


def _usable(
    dns_answer: Path, families: Sequence[int], all_addresses: bool, promised: pa.Array | None
) -> Iterator[pa.Table]:
    """Yield the rows with an address to probe, numbered like the lines of targets.csv.

    `promised`: the names that may be selected; `None`: all names.
    """
    line = FIRST_LINE
    for batch in _batches(dns_answer, [*_OF_ADDRESS, "answer_rank", "list_id", "rank", "resolver"]):
        mask = _with_address(batch, families)
        if not all_addresses:
            mask = pc.and_(mask, pc.equal(batch["answer_rank"], 0))
        if promised is not None:
            mask = pc.and_(mask, pc.is_in(batch["domain"], value_set=promised))
        answers = batch.filter(mask)
        yield _numbered([answers[OF_ANSWER.get(name, name)] for name in PLAN.names[1:]], line)
        line += answers.num_rows


def _with_address(batch: pa.RecordBatch, families: Sequence[int]) -> pa.BooleanArray:
    """Return which rows of DNS answers have an address of one of these families."""
    qtypes = pa.array([QTYPE_OF_FAMILY[family] for family in families])
    mask = pc.and_(pc.is_in(batch["qtype"], value_set=qtypes), pc.is_valid(batch["address"]))
    return pc.and_(mask, pc.equal(batch["status"], "NOERROR"))


def _scanned(scan_answer: Path, line: int) -> Iterator[pa.Table]:
    """Yield the addresses that answered a scan, without a name, numbered from `line`."""
    if not scan_answer.is_file():
        raise InputError(f"there is no {scan_answer}: run the scan stage first")
    for batch in _batches(scan_answer, ["ip"], "scan"):
        count = batch.num_rows
        columns = {"domain": pa.repeat("", count), "ip": batch["ip"]}
        yield _numbered([columns.get(name, pa.nulls(count)) for name in PLAN.names[1:]], line)
        line += count


def _batches(path: Path, columns: Sequence[str], stage: str = "resolve") -> Iterator[pa.RecordBatch]:
    try:
        yield from batches(path, columns)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {error}; run the {stage} stage again") from error


def _selected(plan: pa.Table, mask: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    begin, line = 0, FIRST_LINE
    for batch in plan.to_batches():
        rows = batch.filter(pa.array(mask[begin : begin + batch.num_rows]))
        yield _numbered(rows.columns[1:], line)
        begin += batch.num_rows
        line += rows.num_rows


def _numbered(columns: list[pa.Array], line: int) -> pa.Table:
    targets = pa.array(np.arange(line, line + len(columns[0]), dtype=np.uint32))
    return pa.Table.from_arrays([targets, *columns], names=PLAN.names).cast(PLAN)


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
