"""Experiments: a TOML file each, which says what a figure holds, what it varies, and what was published.

title, source   what is measured, and which figure of which paper did
repetitions     trials of each cell
measure         what is judged: first_stream (time to first byte; unless given), pto_first (first PTO),
                default_pto (the client's before any sample), acks, ack_asymmetry, ack_survey,
                ack_bytes, byte_delay (testbed/measures/acks), pacing, launches (sender_log.py), rtt_updates
                (own_log.py) or pto_logged (own_pto.py, all in testbed/measures)
[held]          fields of every cell (testbed/experiment/cell.py)
[vary]          fields with several values each: every combination is a cell
[when.FIELD.VALUE]   fields that cells with this value have instead of what [held] has
[[cell]]        a further cell: what differs from [held]
[[published]]   client, answering, rtt_ms, first_stream_ms: the median that a paper gives, and `edition`;
                servers: those beside which it is printed, as it depends on what they have in common with the
                paper's; unless given, all
[[gained]]      clients, servers, rtt_ms; low_ms, high_ms: between what the gain is that a paper gives, and
                `edition`. Without clients, servers or rtt_ms: with all (testbed/experiment/published.py)
[[fitted]]      answering, servers, rtt_ms; at_zero_ms, per_rtt: the line that a paper has for the times at
                these RTTs, and `edition`; ours is printed beside it (testbed/measures/rtt_lines.py)
[[timer]]       client, default_pto_ms, second_flight: what a paper gives of a client, and `edition`
[[transfer]]    rtt_ms, ack_ratio, ack_delay_ms, loss_percent, ack_reordering; transfer_s, timer_percent,
                client_percent: what a paper gives of a cell, and `edition`
[[paced]]       server, congestion_control, qdisc, gso, gso_paced, changed (how the paper changed the server);
                dropped, goodput_mbit, below_percent, alone_percent, le5_percent, gap_p50_us: what a paper
                gives of a server's pacing, and `edition`
[[launched]]    server, qdisc, precision_ms: what a paper gives of a server's launch times, and `edition`
[[updated]]     client, updates, new_acks: what a paper gives of a client's own log, and `edition`
[[survey]]      client, ratio, parses, ack_bytes: what a paper gives of a client, and `edition`
[[counted]]     client, packet_bytes, packets_each: what a paper's counters give of all packets of a client
                (IP bytes of one, packets that came for each), two bounds each, and `edition`
[[composition]] client, body_bytes, ack_low_percent, ack_high_percent, bundled_high_percent: what a paper
                gives of a client's bytes in percent of the server's, of its ACKs, and `edition`
[[accept]]      clients, servers, rtt_ms; low_ms, high_ms: where the gain of instant ACK shall be, or `g`: so
                many times how much later the first ACK comes, within_ms or within_percent; and `why`. Without
                servers or rtt_ms: with all
trend_ms        a gain may change by so much over all RTTs at which `g` is expected: more, by the line of
                Theil and Sen, is a trend if Kendall's test has it, too (testbed/measures/trend.py)
crossing        true: the RTT below which an instant ACK costs time is printed, too
shows           what captures of an experiment about acknowledgements show, a sentence each
[[found]]       clients, servers, rtt_ms: what their captures show as the reason of another gain, as `reason`
[[reason]]      of: parts of what is expected and of whom; what the captures show where such an expectation is
                not met, as `reason`
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
        """Return what each cell has of its own."""
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
    """Return the experiments of this folder by name, sorted."""
    return {path.stem: toml_file.read(path, Experiment) for path in sorted(FOLDER.glob("*.toml"))}


def find(name: str) -> Experiment:
    """Return an experiment; UsageError names all there are."""
    if name not in load():
        raise UsageError(f"there is no experiment {name!r}, only {', '.join(load())}")
    return load()[name]


def chosen(experiment: Experiment, patterns: tuple[str, ...]) -> list[Cell]:
    """Return the cells whose names have one of the `patterns` in them; all without any.

    UsageError if a pattern is in no name.
    """
    cells = experiment.cells()
    for pattern in patterns:
        if not any(pattern in cell.name for cell in cells):
            raise UsageError(f"no cell's name has {pattern!r} in it: `firstflight testbed list` names them")
    return [cell for cell in cells if not patterns or any(pattern in cell.name for pattern in patterns)]
