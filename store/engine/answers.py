"""Formats answers from a server. Formatting is the client's task; the local engine does it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence

from firstflight.system import spreadsheet
from store.base import FormattedAnswer
from store.engine import parquet
from store.engine.session import EngineSession
from store.protocol.blocks import NativeBlock
from store.sql import identifier, literal

# Number formats that docs/interfaces.md requires.
SETTINGS = {
    "output_format_json_quote_64bit_integers": 0,
    "output_format_json_quote_64bit_floats": 0,
    "output_format_json_escape_forward_slashes": 0,
}
# Pretty tables are rounded to this many decimals, so that a sum of floats shows no 12080.400000000001;
# formats that programs read keep the shortest text that gives the same float.
SHOWN_DECIMALS = 6
_FOR_PEOPLE = ("Pretty", "Vertical", "Markdown")
_FORMAT_CLAUSE = re.compile(r"^FORMAT (\w+)$", re.MULTILINE)


def format_of(parsed: str) -> str | None:
    """Return the format in the FORMAT clause in a parsed statement, or `None`."""
    match = _FORMAT_CLAUSE.search(parsed)
    return match[1] if match else None


def settings_for(output_format: str) -> dict[str, object]:
    """Return the settings for an answer in this format: SETTINGS, and rounded decimals in readable tables."""
    decimals = SHOWN_DECIMALS if output_format.startswith(_FOR_PEOPLE) else 0
    return {**SETTINGS, "output_format_float_precision": decimals}


def answer(content: bytes, output_format: str) -> FormattedAnswer:
    """Return an answer for users: in CSV, no text is a formula; in Parquet, libraries agree on the types."""
    if spreadsheet.is_csv(output_format):
        content = spreadsheet.answer(content)
    elif output_format == parquet.FORMAT:
        content = parquet.readable(content)
    return FormattedAnswer(content, output_format)


def formatted(engine: EngineSession, blocks: Sequence[NativeBlock], output_format: str) -> bytes:
    """Return the rows of `blocks` (all of the same columns) in `output_format`; EngineError if unknown."""
    if not blocks or not blocks[0].names:
        return b""
    # Column names of an answer may be any text, so the query uses generated names.
    columns = [f"_column_{number}" for number in range(len(blocks[0].names))]
    structure = ", ".join(
        f"{name} {type_name}" for name, type_name in zip(columns, blocks[0].types, strict=True)
    )
    shown = ", ".join(
        f"{column} AS {identifier(name)}" for column, name in zip(columns, blocks[0].names, strict=True)
    )
    with tempfile.TemporaryFile() as file:
        for block in blocks:
            file.write(NativeBlock(columns, block.types, block.rows, block.values).native())
        file.flush()
        path = f"/proc/self/fd/{file.fileno()}"
        engine.set(settings_for(output_format))
        # One thread keeps the order of the rows.
        return engine.run(
            f"SELECT {shown} FROM file({literal(path)}, 'Native', {literal(structure)}) "
            "SETTINGS max_threads = 1, input_format_parallel_parsing = 0",
            output_format,
        )
