"""An experiment: the fields that its cells share, the fields that vary, and notes about its results.

The page "Experiment files" of the documentation site describes the file format. Each measure adds its
own tables (testbed/measures).
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from firstflight.errors import UsageError
from firstflight.settings.read import fault_message
from testbed import stacks
from testbed.experiment.cell import Cell

MOST_CELLS = 10_000


class UnmetReason(BaseModel):
    """A reason from captures, for unmet expectations with every part in `of`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    of: tuple[str, ...] = Field(min_length=1, description="Parts of the expectation's subject and text.")
    reason: str = Field(description="Why the expectation is not met.")


class Experiment(BaseModel):
    """The keys of every experiment's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    title: str = Field(description="What the experiment measures.")
    source: str = Field(default="", description="The paper and figure that it repeats.")
    repetitions: int = Field(default=100, ge=1, le=100_000, description="Trials of each cell.")
    measure: str = Field(default="first_stream", description="What is judged: one of the measures below.")
    held: dict[str, Any] = Field(default={}, description="Fields of every cell.")
    vary: dict[str, tuple[Any, ...]] = Field(
        default={}, description="Fields with several values each. Every combination is a cell."
    )
    when: dict[str, dict[str, dict[str, Any]]] = Field(
        default={},
        description="`[when.FIELD.VALUE]`: fields that replace fields in `held` for cells with this value.",
    )
    cell: tuple[dict[str, Any], ...] = Field(
        default=(), description="Additional cells: the fields of each that differ from `held`."
    )
    shows: tuple[str, ...] = Field(default=(), description="Sentences about what the captures show.")
    reason: tuple[UnmetReason, ...] = Field(
        default=(), description="Reasons from captures for expectations that are not met."
    )

    @model_validator(mode="after")
    def _has_cells(self) -> Experiment:
        count = 1
        for field, values in self.vary.items():
            if not values:
                raise ValueError(f"`vary` has no values of {field}: add values, or remove it")
            count *= len(values)
        if count > MOST_CELLS:
            raise ValueError(f"`vary` makes {count} cells, more than {MOST_CELLS}")
        self._check_when()
        for name, count in Counter(cell.name for cell in self.cells()).items():
            if count > 1:
                raise ValueError(f"two cells have the name {name}: they differ in fields that names omit")
        return self

    def _check_when(self) -> None:
        """Raise ValueError if `when` has a field or value that no cell has."""
        for field, values in self.when.items():
            if field not in Cell.model_fields:
                raise ValueError(f"`when` has the field {field}, which no cell has")
            present = {_value(field, {**self.held, **given}) for given in self._given()}
            for value, more in values.items():
                if not any(_is(value_, value) for value_ in present):
                    raise ValueError(f"`when.{field}.{value}` applies to no cell: none has this value")
                for other in set(more) & set(self.vary):
                    raise ValueError(f"`when.{field}.{value}` sets {other}, which is also in `vary`")

    def cells(self) -> list[Cell]:
        """Return all cells, in the order of the file. ValueError if a cell is impossible."""
        return [self._made(given) for given in self._given()]

    def _given(self) -> list[dict[str, Any]]:
        """Return the fields that each cell sets itself."""
        fields = list(self.vary)
        varied = [dict(zip(fields, values, strict=True)) for values in itertools.product(*self.vary.values())]
        return [*(varied if fields else ()), *self.cell]

    def _made(self, given: dict[str, Any]) -> Cell:
        fields = {**self.held, **given}
        for field, values in self.when.items():
            own_value = _value(field, fields)
            more = next((more for value, more in values.items() if _is(own_value, value)), {})
            fields = {**fields, **more, **given}
        try:
            cell = Cell.model_validate(fields)
            for side in (cell.client, cell.server):
                stacks.find(side)
        except ValidationError as error:
            raise ValueError(fault_message("a cell", error.errors()[0], Cell)) from error
        except UsageError as error:
            raise ValueError(str(error)) from error
        return cell


def _value(field: str, given: dict[str, Any]) -> Any:
    """Return the value of a cell's field, or its default if it is not given."""
    value = given.get(field, Cell.model_fields[field].default)
    return tuple(value) if isinstance(value, list) else value


def _is(value: object, key: str) -> bool:
    """Return whether a TOML key, which is text, denotes a value."""
    if isinstance(value, bool):
        return key == str(value).lower()
    if isinstance(value, int | float):
        try:
            return float(key) == value
        except ValueError:
            return False
    return key == str(value)


def chosen(experiment: Experiment, patterns: tuple[str, ...]) -> list[Cell]:
    """Return the cells whose names contain one of the `patterns`; all cells if there are no patterns.

    UsageError if a pattern matches no cell.
    """
    cells = experiment.cells()
    for pattern in patterns:
        if not any(pattern in cell.name for cell in cells):
            raise UsageError(f"no cell's name contains {pattern!r}: `firstflight testbed list` lists all")
    return [cell for cell in cells if not patterns or any(pattern in cell.name for pattern in patterns)]
