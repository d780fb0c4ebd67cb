"""Prints Tables 1 and 3 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from firstflight.system.terminal import visible
from reports import published_values
from reports.numbers import bootstrap
from reports.numbers.truth import Declared
from reports.tables import table1 as table1s
from reports.tables import table3 as table3s
from reports.tables.columns import PrintedColumn, table_text
from reports.tables.table1 import Table1, Table1Cdn


def table1(table: Table1, declared: Mapping[str, Declared] | None = None, *, terminal: bool) -> str:
    """Format Table 1 in the layout of the paper, in percent, then by outcome.

    `declared` adds declared values next to the measured ones. `terminal`: use colours and lines. Published
    values are next to ours unless they are hidden.
    """
    published = published_values.are_shown()
    parts = [
        f"Table 1 of run {visible(table.run)}: {table.vantages} vantage points, "
        f"{table.repetitions} repetitions, first IPv4 address of each name.\n",
        "The paper's way: probes with the first ACK and the ServerHello in different datagrams.\n",
        table_text(_paper(table.rows, declared), terminal=terminal),
        _one_vantage(table.rows),
        "By outcome: iack / (iack + coalesced + sh_first), and all probes of the run.\n",
        table_text(_by_outcome(table.rows), terminal=terminal),
        "max.: highest share at one vantage point in one repetition; variation: highest minus lowest share.\n"
        f"[low, high]: {bootstrap.LEVEL:.0%} percentile bootstrap over names, {table.resamples} resamples, "
        f"seed {table.seed}. -: nothing counted." + (" publ.: IMC 2024, Table 1.\n" if published else "\n"),
    ]
    missing = sorted(set(declared or ()) - {row.cdn for row in table.rows})
    if missing:
        parts.append(f"Declared and not in the store: {visible(', '.join(missing))}.\n")
    return "\n".join(parts)


def table3(rows: Sequence[table3s.Table3Row], *, terminal: bool) -> str:
    """Format Table 3 in the layout of the paper, one repetition, in ms. `terminal` as for Table 1."""
    noted = [row for row in rows if row.initial_meant_ms is not None]
    columns = [
        PrintedColumn("\nServer", [row.server + ("*" if row in noted else "") for row in rows], right=False),
        PrintedColumn("Initial\n[ms]", [_ms(row.initial_ack_delay_ms) for row in rows]),
        PrintedColumn("Handshake\n[ms]", [_handshake(row) for row in rows]),
        PrintedColumn("Initial\n[raw]", [_count(row.initial_ack_delay_raw) for row in rows]),
        PrintedColumn("Handshake\n[raw]", [_count(row.handshake_ack_delay_raw) for row in rows]),
    ]
    published = published_values.are_shown()
    if published:
        columns.append(PrintedColumn("publ. I.\n[ms]", [_repetitions(row.server, "initial") for row in rows]))
        columns.append(
            PrintedColumn("publ. H.\n[ms]", [_repetitions(row.server, "handshake") for row in rows])
        )
    parts = [
        "First ACK Delay of each server, read with the default exponent (raw x 8 us), as in the paper.\n",
        table_text(columns, terminal=terminal),
        "-: no ACK frame in that space. ?: packets could not be opened (no keys)."
        + (" publ.: IMC 2024, Table 3, least and most of three repetitions.\n" if published else "\n"),
    ]
    parts += [
        f"* {visible(row.server)} writes the field in microseconds (exponent 0): "
        f"it means {_ms(row.initial_meant_ms)} ms.\n"
        for row in noted
    ]
    return "\n".join(parts)


def _repetitions(server: str, space: str) -> str:
    """Return the least and the most of a server's published delays, in ms; `-` without any."""
    columns = [published_values.imc2024("table3", f"{space}_ms_{number}") for number in (1, 2, 3)]
    counts = [values[server] for values in columns if server in values]
    if not counts:
        return "-"
    low, high = min(counts), max(counts)
    return f"{low:.1f}" if low == high else f"{low:.1f}-{high:.1f}"


def _handshake(row: table3s.Table3Row) -> str:
    return _ms(row.handshake_ack_delay_ms) if row.handshake_is_open else "?"


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def _paper(rows: Sequence[Table1Cdn], declared: Mapping[str, Declared] | None) -> list[PrintedColumn]:
    values = [(declared or {}).get(row.cdn, Declared(row.cdn, None, None, None)) for row in rows]
    has_truth = declared is not None
    theirs = {name: published_values.imc2024("table1", name) for name in table1s.PUBLISHED}
    published = published_values.are_shown()

    def publ(name: str, unit: str) -> PrintedColumn | None:
        cells = [theirs[name].get(row.cdn) for row in rows]
        text = [
            _percent(cell) if unit == "%" else _count(None if cell is None else int(cell)) for cell in cells
        ]
        return PrintedColumn(f"publ.\n[{unit}]", text) if published else None

    columns = [
        PrintedColumn("\nCDN", [row.cdn for row in rows], right=False),
        PrintedColumn("Domains\n[#]", [str(row.domains) for row in rows]),
        PrintedColumn("declared\n[#]", [_count(value.domains) for value in values]) if has_truth else None,
        publ("domains", "#"),
        PrintedColumn("IACK max.\n[%]", [_percent(row.iack_share_max) for row in rows]),
        PrintedColumn("declared\n[%]", [_percent(value.iack_share_max) for value in values])
        if has_truth
        else None,
        publ("iack_share_max", "%"),
        PrintedColumn("\n[low, high]", [_interval(row.iack_share_max_interval) for row in rows]),
        PrintedColumn("\nof probes", [f"{row.instant}/{row.counted}" for row in rows]),
        PrintedColumn("Variation\n[%]", [_percent(row.variation) for row in rows]),
        PrintedColumn("declared\n[%]", [_percent(value.variation) for value in values])
        if has_truth
        else None,
        publ("variation", "%"),
        PrintedColumn("\n[low, high]", [_interval(row.variation_interval) for row in rows]),
    ]
    return [column for column in columns if column is not None]


def _one_vantage(rows: Sequence[Table1Cdn]) -> str:
    """Return the sentence about the largest variation at one vantage point; empty if nothing was counted."""
    known = [(row.variation_one_vantage, row.cdn) for row in rows if row.variation_one_vantage is not None]
    if not known:
        return ""
    share, cdn = max(known)
    published_share = published_values.imc2024("table1", "variation_one_vantage")
    published = "".join(
        f"; published: {_percent(value)} % ({name})" for name, value in published_share.items()
    )
    return f"Largest variation at one vantage point: {_percent(share)} % ({visible(cdn)}{published}).\n"


def _by_outcome(rows: Sequence[Table1Cdn]) -> list[PrintedColumn]:
    return [
        PrintedColumn("\nCDN", [row.cdn for row in rows], right=False),
        PrintedColumn("Domains\n[#]", [str(row.strict_domains) for row in rows]),
        PrintedColumn("IACK max.\n[%]", [_percent(row.strict_iack_share_max) for row in rows]),
        PrintedColumn("\n[low, high]", [_interval(row.strict_iack_share_max_interval) for row in rows]),
        PrintedColumn("Variation\n[%]", [_percent(row.strict_variation) for row in rows]),
        PrintedColumn("\n[low, high]", [_interval(row.strict_variation_interval) for row in rows]),
        PrintedColumn("\niack", [str(row.iack) for row in rows]),
        PrintedColumn("\ncoalesced", [str(row.coalesced) for row in rows]),
        PrintedColumn("\nsh_first", [str(row.sh_first) for row in rows]),
        PrintedColumn("\nexcluded", [str(row.excluded) for row in rows]),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f}"


def _interval(bounds: bootstrap.Interval | None) -> str:
    return "-" if bounds is None else f"[{bounds[0] * 100:.1f}, {bounds[1] * 100:.1f}]"


def _count(number: int | None) -> str:
    return "-" if number is None else str(number)
