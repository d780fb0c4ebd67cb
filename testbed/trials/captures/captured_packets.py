"""The packets of an experiment's captures, for values that its rows do not contain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from firstflight.errors import InputError
from testbed.trials.captures import dissected
from testbed.trials.captures.block_files import TRIALS
from testbed.trials.captures.packets import Packet, by_connection
from testbed.trials.trial_row import GuestTrial, TrialRow, by_repetition, is_of


def connections(folder: Path, rows: Sequence[TrialRow]) -> list[list[Packet]]:
    """Return the packets of the connections of `rows`, which must be completed trials.

    `folder` is the experiment's. InputError if a capture was not kept.
    """
    return [connection for block_rows in _by_capture(rows) for connection in _connections(folder, block_rows)]


def summaries(folder: Path, rows: Sequence[TrialRow]) -> list[Packet]:
    """Return the rows of quic_connection in the captures of `rows`. InputError as in `connections`."""
    captures = {(row["cell"], row["capture_file"]): row for row in rows}
    return [summary for row in captures.values() for summary in _dissected(folder, row, "quic_connection")]


def summaries_of(folder: Path, rows: Sequence[TrialRow]) -> list[Packet]:
    """Return the rows of quic_connection of `rows`, which must be completed trials. InputError as above."""
    summaries: list[Packet] = []
    for block_rows in _by_capture(rows):
        connections = _dissected(folder, block_rows[0], "quic_connection")
        trials = _trials(folder, block_rows)
        summaries += [
            summary
            for summary in connections
            if any(is_of(summary["start_time_ns"], trial) for trial in trials)
        ]
    return summaries


def _by_capture(rows: Iterable[TrialRow]) -> list[list[TrialRow]]:
    """Return the rows grouped by capture; rows without a capture are grouped by cell."""
    captures: dict[tuple[str, str | None], list[TrialRow]] = {}
    for row in rows:
        captures.setdefault((row["cell"], row["capture_file"]), []).append(row)
    return list(captures.values())


def _connections(folder: Path, rows: Sequence[TrialRow]) -> list[list[Packet]]:
    """Return the packets of each connection that started during a trial of the capture."""
    row = rows[0]
    connections = by_connection(_dissected(folder, row, "quic_packet"))
    trials = _trials(folder, rows)
    return [
        packets for packets in connections if any(is_of(packets[0]["time_ns"], trial) for trial in trials)
    ]


def _trials(folder: Path, rows: Sequence[TrialRow]) -> list[GuestTrial]:
    """Return the guest's records for `rows`, which share one capture."""
    trials = by_repetition((folder / rows[0]["capture_file"]).with_name(TRIALS))
    return [trials[row["repetition"]] for row in rows if row["repetition"] in trials]


def _dissected(folder: Path, row: TrialRow, kind: str) -> list[Packet]:
    if row["capture_file"] is None or row["keys_file"] is None:
        raise InputError(
            f"{folder}: the captures of cell {row['cell']} were not kept, and this table needs them"
        )
    keys, capture = (str(folder / row[name]) for name in ("keys_file", "capture_file"))
    return dissected.rows(kind, "--keys", keys, capture)
