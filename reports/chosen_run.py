"""Chooses an answer's run: the run that the user names, or the newest with rows of the kind."""

from __future__ import annotations

from dataclasses import dataclass

from firstflight.errors import UsageError
from store import Store
from store.errors import UNKNOWN_TABLE, StoreError
from store.sql import literal
from store.tables import migrate

NEWEST = "newest"
PROBES = ("quic_probe",)
HANDSHAKES = ("quic_handshake",)
DOWNLOADS = ("download",)
PAIRS = ("calibration", "quic_handshake")

# Singular and plural for rows of a kind, and the section of the settings that enables their stage.
_ROWS = {
    "quic_probe": ("probe", "probes", ""),
    "quic_handshake": ("handshake", "handshakes", "handshake"),
    "calibration": ("calibration pair", "calibration pairs", "calibrate"),
    "download": ("download", "downloads", "download"),
    "tcp_option": ("TCP connection", "TCP connections", "tcp_options"),
    "crawl_page": ("crawled page", "crawled pages", "crawl"),
}


@dataclass(frozen=True)
class Choice:
    """A run. If it was chosen for the user, `sentence` says so, with the number of runs; else it is empty."""

    run: str
    sentence: str = ""


def choose(store: Store, run: str | None, kinds: tuple[str, ...]) -> Choice:
    """Return the run `run`: an id, or the newest campaign with rows of `kinds` (`newest` or `None`).

    UsageError if the store has no such campaign, or lacks the tables.
    """
    if run and run != NEWEST:
        return Choice(run)
    found = newest(store, kinds)
    if found is None:
        described_rows, _, section = _ROWS.get(kinds[0], (f"row of {kinds[0]}", "", ""))
        enabled = f" with [{section}] enabled" if section else ""
        raise UsageError(
            f"the store in {store.location} has no {described_rows}: run a campaign{enabled}, or load one "
            "(firstflight load RUN)"
        )
    return found


def newest(store: Store, kinds: tuple[str, ...]) -> Choice | None:
    """Return the newest campaign with rows of any of `kinds`; `None` without such a campaign."""
    among = ", ".join(map(literal, kinds))
    try:
        found = store.rows(
            f"SELECT kind, run, runs FROM {store.dialect.database}.newest_runs WHERE kind IN ({among}) "
            "ORDER BY began_at DESC LIMIT 1"
        )
    except StoreError as error:
        if error.code == UNKNOWN_TABLE and migrate.pending(store):
            raise UsageError(migrate.outdated(store)) from error
        raise
    if not found:
        return None
    row = found[0]
    of = f"the newest of {row['runs']} runs" if int(row["runs"]) > 1 else "the only run"
    return Choice(str(row["run"]), f"run {row['run']}, {of} with {rows_of(row['kind'])}")


def rows_of(kind: str) -> str:
    """Return the plural noun for rows of a kind, such as `handshakes`, or `rows of KIND`."""
    return _ROWS[kind][1] if kind in _ROWS else f"rows of {kind}"
