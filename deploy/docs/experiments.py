"""The page of experiment files, from the Pydantic models of the testbed."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from deploy.docs.settings import bounds, default, row
from testbed import measures
from testbed.experiment.ack_part import AckPart
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.path_part import PathPart
from testbed.experiment.server_part import ServerPart

HEAD = """\
# Experiment files

An experiment of the [testbed](../testbed.md) is a TOML file: `testbed/experiments/NAME.toml`, or your own
file with `--scenario FILE` ([examples](../testbed/scenarios.md)). `[held]`, `[vary]`, `[when]` and `[[cell]]`
set the fields of cells. The measure defines what is judged, and the tables of published and expected values
that the file may have.
"""
TITLES: dict[type[BaseModel], str] = {PathPart: "Path", ServerPart: "Server", AckPart: "Acknowledgements"}
WORDS = {bool: "true or false", int: "integer", float: "number", str: "text", dict: "table", Any: "any value"}


def markdown() -> str:
    """Return the page: keys of every file, fields in a cell, measures with their keys, and their tables."""
    parts = [HEAD, "## Keys of every file\n", _table(Experiment.model_fields), "## Fields of a cell\n"]
    parts += [
        _table({name: field for name, field in Cell.model_fields.items() if name in Cell.__annotations__})
    ]
    for part, title in TITLES.items():
        parts.append(f"### {title}\n\n{_description(part)}\n\n{_table(part.model_fields)}")
    parts.append("## Measures\n")
    tables = dict(_tables(Experiment.model_fields))
    for name in measures.names():
        model = measures.find(name).experiment
        own_fields = {
            key: field for key, field in model.model_fields.items() if key not in Experiment.model_fields
        }
        tables |= _tables(own_fields)
        parts.append(
            f"### {name}\n\n{_description(model)}\n" + (f"\n{_table(own_fields)}" if own_fields else "")
        )
    parts.append("## Tables\n")
    for key, table in sorted(tables.items()):
        parts.append(f"### {key}\n\n`[[{key}]]`. {_description(table)}\n\n{_table(table.model_fields)}")
    return "\n".join(parts)


def _table(fields: dict[str, FieldInfo]) -> str:
    lines = ["| key | values | default | meaning |", "| --- | --- | --- | --- |"]
    for name, field in fields.items():
        values = "; ".join([_values(name, field.annotation), *bounds(field)])
        lines.append(row(f"`{name}`", values, default(field), field.description or ""))
    return "\n".join([*lines, ""])


def _description(model: type[BaseModel]) -> str:
    return " ".join((inspect.getdoc(model) or "").split())


def _tables(fields: dict[str, FieldInfo]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the keys whose values are tables, with the model of these."""
    for name, field in fields.items():
        if (model := _model(field.annotation)) is not None:
            yield name, model


def _model(annotation: Any) -> type[BaseModel] | None:
    entry = get_args(annotation)[0] if get_origin(annotation) is tuple else None
    return entry if isinstance(entry, type) and issubclass(entry, BaseModel) else None


def _values(name: str, annotation: Any) -> str:
    """Return an annotation's values in words."""
    origin, given = get_origin(annotation), get_args(annotation)
    if _model(annotation) is not None:
        return f"[tables](#{name})"
    if origin is Annotated:
        return _values(name, given[0])
    if origin is Literal:
        return ", ".join(f"`{argument}`" for argument in given)
    if origin in (types.UnionType, Union):
        # `X | None`: the default shows that it may be missing.
        return _values(name, next(argument for argument in given if argument is not type(None)))
    if origin is tuple:
        listed = " and ".join(_distinct(_values(name, argument) for argument in given if argument is not ...))
        return f"list of: {listed}" if given[-1] is ... else f"{len(given)} of: {listed}"
    return WORDS[origin or annotation]


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))
