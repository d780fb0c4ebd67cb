"""Code that all parts share: settings, runs and their reports, egress policy, access to the system.

    layout          every path of a run; StageKey
    run/            a run, its reports, provenance, clock
    settings/       a campaign's settings
    egress/         block and opt-out lists, the egress policy, the lab's addresses, shared limits
    cdn/            rules that identify a CDN; edge locations
    as_map          AS and CDN of an address
    host_names      the one reader of names in lists, options and settings; engines have the same rules
    sampling        numbers by which runs sample names
    capture         captures of packets
    system/         files, locks, children, progress, native programs
    notebook        the Python API
    usage/          Rust: wrong use of native programs

For notebooks and other Python programs it offers `runs`, `query`, `sql` and `records` (firstflight.notebook).
They are imported on first use, because every command imports this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firstflight.notebook import Table, query, records, runs, sql

__all__ = ["Table", "query", "records", "runs", "sql"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from firstflight import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
