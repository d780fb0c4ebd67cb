"""Experiments: one TOML file each, with the fixed fields, the varied fields and the published values.

title, source   what the experiment measures, and the paper and figure that it repeats
repetitions     trials of each cell
measure         what is judged: first_stream (time to first byte; the default), pto_first (first PTO),
                default_pto (the client's PTO before any sample), acks, ack_asymmetry, ack_survey,
                ack_bytes, byte_delay (testbed/measures/acks), pacing, launches (sender_log.py), rtt_updates
                (own_log.py) or pto_logged (own_pto.py, all in testbed/measures)
[held]          fields of every cell (testbed/experiment/cell.py)
[vary]          fields with several values each: every combination is a cell
[when.FIELD.VALUE]   fields that replace those in [held] for cells with this value
[[cell]]        an additional cell: the fields that differ from [held]

Published values. Each also has `edition`, the edition of the paper:

[[published]]   client, answering, rtt_ms, first_stream_ms: a published median; servers: the servers to
                print it with (default: all). The value depends on what they share with the paper's servers
[[gained]]      clients, servers, rtt_ms; low_ms, high_ms: a published range of the gain. Without clients,
                servers or rtt_ms it applies to all (testbed/experiment/published.py)
[[fitted]]      answering, servers, rtt_ms; at_zero_ms, per_rtt: a published line through the times at these
                RTTs, printed next to ours (testbed/measures/rtt_lines.py)
[[timer]]       client, default_pto_ms, second_flight: published values for a client
[[transfer]]    rtt_ms, ack_ratio, ack_delay_ms, loss_percent, ack_reordering; transfer_s, timer_percent,
                client_percent: published values for a cell
[[paced]]       server, congestion_control, qdisc, gso, gso_paced, changed (how the paper changed the server);
                dropped, goodput_mbit, below_percent, alone_percent, le5_percent, gap_p50_us: published
                values for a server's pacing
[[launched]]    server, qdisc, precision_ms: published values for a server's launch times
[[updated]]     client, updates, new_acks: published values from a client's own log
[[survey]]      client, ratio, parses, ack_bytes: published values for a client
[[counted]]     client, packet_bytes, packets_each: published counters over all packets of a client (IP bytes
                per packet, packets received per packet sent), two bounds each
[[composition]] client, body_bytes, ack_low_percent, ack_high_percent, bundled_high_percent: published size
                of a client's ACKs in percent of the server's bytes, and the share of bundled ACKs

Expectations and reasons:

[[accept]]      clients, servers, rtt_ms; low_ms, high_ms: the expected gain of instant ACK. Or `g`: the
                expected gain as a multiple of how much later the first ACK arrives, within_ms or
                within_percent. `why` gives the reason. Without servers or rtt_ms it applies to all
trend_ms        the largest accepted change of a gain over all RTTs at which `g` is expected. A larger change
                of the Theil-Sen line is a trend if Kendall's test agrees (testbed/measures/trend.py)
crossing        true: also print the RTT below which an instant ACK costs time
shows           sentences about the captures of an experiment about acknowledgements
[[found]]       clients, servers, rtt_ms; `reason`: why the gain differs, according to the captures
[[reason]]      of: parts of an expectation's text and subject; `reason`: why the expectation is not met,
                according to the captures
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from firstflight.errors import UsageError
from firstflight.settings.read import fault_message
from testbed import stacks, toml_file
from testbed.experiment.cell import Cell
from testbed.experiment.expected import Accept, Found, Reason
from testbed.experiment.published import (
    Composition,
    Counted,
    Fitted,
    GainRange,
    Launched,
    PacedResult,
    Published,
    Survey,
    Timer,
    Transfer,
    Updated,
)

FOLDER = Path(__file__).parent.parent / "experiments"
MOST_CELLS = 10_000
Measure = Literal[
    "first_stream",
    "pto_first",
    "default_pto",
    "acks",
    "ack_asymmetry",
    "ack_survey",
    "ack_bytes",
    "byte_delay",
    "pacing",
    "launches",
    "rtt_updates",
    "pto_logged",
]
"""A column of testbed_trial without its unit, or what the captures show beside it."""


class Experiment(BaseModel):
    """A file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str
    source: str = ""
    repetitions: int = Field(default=100, ge=1, le=100_000)
    measure: Measure = "first_stream"
    held: dict[str, Any] = {}
    vary: dict[str, tuple[Any, ...]] = {}
    when: dict[str, dict[str, dict[str, Any]]] = {}
    cell: tuple[dict[str, Any], ...] = ()
    published: tuple[Published, ...] = ()
    gained: tuple[GainRange, ...] = ()
    fitted: tuple[Fitted, ...] = ()
    timer: tuple[Timer, ...] = ()
    transfer: tuple[Transfer, ...] = ()
    paced: tuple[PacedResult, ...] = ()
    launched: tuple[Launched, ...] = ()
    survey: tuple[Survey, ...] = ()
    counted: tuple[Counted, ...] = ()
    composition: tuple[Composition, ...] = ()
    updated: tuple[Updated, ...] = ()
    accept: tuple[Accept, ...] = ()
    found: tuple[Found, ...] = ()
    reason: tuple[Reason, ...] = ()
    shows: tuple[str, ...] = ()
    trend_ms: float | None = Field(default=None, gt=0)
    crossing: bool = False

    @model_validator(mode="after")
    def _has_cells(self) -> Experiment:
        count = 1
        for field, values in self.vary.items():
            if not values:
                raise ValueError(f"`vary` has no values of {field}: give some, or leave it out")
            count *= len(values)
        if count > MOST_CELLS:
            raise ValueError(f"`vary` makes {count} cells, more than {MOST_CELLS}")
        self._check_when()
        for name, count in Counter(cell.name for cell in self.cells()).items():
            if count > 1:
                raise ValueError(f"two cells are called {name}: they differ in what their names do not show")
        return self

    def _check_when(self) -> None:
        """Raise ValueError if `when` has something that no cell is made by."""
        for field, values in self.when.items():
            if field not in Cell.model_fields:
                raise ValueError(f"`when` is about {field}, which no cell has")
            there = {_value(field, {**self.held, **one}) for one in self._given()}
            for value, more in values.items():
                if not any(_is(one, value) for one in there):
                    raise ValueError(f"`when.{field}.{value}` is of no cell: none has this value")
                for other in set(more) & set(self.vary):
                    raise ValueError(f"`when.{field}.{value}` gives {other}, which `vary` has, too")

    def cells(self) -> list[Cell]:
        """Return all cells, in the order of the file. ValueError if one is impossible."""
        return [self._made(one) for one in self._given()]

    def _given(self) -> list[dict[str, Any]]:
        """Return the fields that each cell sets itself."""
        fields = list(self.vary)
        varied = [dict(zip(fields, values, strict=True)) for values in itertools.product(*self.vary.values())]
        return [*(varied if fields else ()), *self.cell]

    def _made(self, given: dict[str, Any]) -> Cell:
        whole = {**self.held, **given}
        for field, values in self.when.items():
            own = _value(field, whole)
            more = next((more for value, more in values.items() if _is(own, value)), {})
            whole = {**whole, **more, **given}
        try:
            made = Cell.model_validate(whole)
            for side in (made.client, made.server):
                stacks.find(side)
        except ValidationError as error:
            raise ValueError(fault_message("a cell", error.errors()[0])) from error
        except UsageError as error:
            raise ValueError(str(error)) from error
        return made


def _value(field: str, given: dict[str, Any]) -> Any:
    """Return the value of a cell's field, which it has by default if it is not given."""
    value = given.get(field, Cell.model_fields[field].default)
    return tuple(value) if isinstance(value, list) else value


def _is(value: object, key: str) -> bool:
    """Return whether a key of TOML, which is text, names a value."""
    if isinstance(value, bool):
        return key == str(value).lower()
    if isinstance(value, int | float):
        try:
            return float(key) == value
        except ValueError:
            return False
    return key == str(value)


@cache
def load() -> dict[str, Experiment]:
    """Return the experiments in this folder, keyed and sorted by name."""
    return {path.stem: toml_file.read(path, Experiment) for path in sorted(FOLDER.glob("*.toml"))}


def find(name: str) -> Experiment:
    """Return an experiment; UsageError names all there are."""
    if name not in load():
        raise UsageError(f"there is no experiment {name!r}, only {', '.join(load())}")
    return load()[name]


def chosen(experiment: Experiment, patterns: tuple[str, ...]) -> list[Cell]:
    """Return the cells whose names contain one of the `patterns`; all cells if there are no patterns.

    UsageError if a pattern matches no cell.
    """
    cells = experiment.cells()
    for pattern in patterns:
        if not any(pattern in cell.name for cell in cells):
            raise UsageError(f"no cell's name has {pattern!r} in it: `firstflight testbed list` names them")
    return [cell for cell in cells if not patterns or any(pattern in cell.name for pattern in patterns)]
