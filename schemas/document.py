"""Writes docs/schema.md from the record kinds and views: `python -m schemas.document > docs/schema.md`."""

from __future__ import annotations

from schemas import records, sql

_HEAD = """\
# Every column

Generated from `schemas/records/*.yaml` and `schemas/views/*.yaml` by `python -m schemas.document`; do not
edit this file. `firstflight schema KIND` prints the same, and the database has it as comments (`DESCRIBE
TABLE quic_probe`).

*Type* is the type in record files (Parquet), except that times (`*_at`) are timestamps there (ns, UTC). JSON
lines have times as int64, ns since 1970. The store uses String for text (LowCardinality if values repeat,
Enum8 if the list of values is closed) and DateTime64(9, 'UTC') for times. A
*computed* column is an ALIAS and takes no space. Select it by name; `firstflight sql` includes it in
`SELECT *` (other clients: `SETTINGS asterisk_include_alias_columns = 1`). Null means not observed, never
zero. *From* names the source of a column: the prober or dissector, a stage, the loader, or the store (by a
default). `quantiles` is the mergeable state of a sketch (relative error 0.5 %); quantilesDDMerge reads it.

## Any address

| function | |
| --- | --- |
| `address_info(ip, day)` | asn, as_name, organisation, country, cdn of an address on a day (`.cdn`: one) |
| `address_asn(ip, day)`, `address_cdn(ip, day)`, `address_organisation(ip, day)` | a single value |
| `as_organisation(asn, day)` | organisation of an AS |

`ip` is text or a value of type IPv4 or IPv6. `day` is a date or a time. Both may differ from row to row. The
functions use the tables of the runs in the store: the newest routing table and the newest file of AS
organisations up to that day. They return null for addresses without an entry and for days before the first
table. An AS in no CDN's list has the CDN Others. A server loads new tables within five minutes.
"""


def markdown() -> str:
    """Return the whole page."""
    parts = [_HEAD, "## Tables\n"]
    parts += [of_kind(records.load(name)) for name in records.names()]
    parts.append("## Views\n")
    parts += [_view(view) for view in sorted(sql.views(), key=lambda view: view.name)]
    return "\n".join(parts)


def of_kind(kind: records.Kind) -> str:
    """Return the section about a record kind."""
    lines = [f"### {kind.name}\n", f"{kind.meaning}\n"]
    if not kind.stored:
        lines.append("Record files only; the store has no table for it.\n")
    if kind.unit:
        lines.append(f"Loaded and replaced as a whole by: {', '.join(kind.unit)}.\n")
    lines += ["| column | type | unit | null | from | meaning |", "| --- | --- | --- | --- | --- | --- |"]
    for column in kind.columns:
        null = "yes" if column.nullable else ""
        computed = f" Computed: `{column.derived}`." if column.derived else ""
        meaning = (column.meaning + computed).replace("|", "\\|")
        cells = [f"`{column.name}`", column.type, column.unit or "", null, column.source or "", meaning]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _view(view: sql.View) -> str:
    lines = [f"### {view.name}\n", f"{view.meaning}\n", "| column | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in view.columns.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(markdown(), end="")
