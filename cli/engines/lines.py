"""Prints the rows of an engine, which are JSON lines, as text in columns."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from cli.engines import sentences
from cli.engines.arguments import Arguments
from firstflight.system import terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cli.engines.addresses import ResolvedNames

# Minimum widths of the columns if the names are not known in advance.
_NAME, _PLACE = 24, 15
# Clears the line of the engine's progress bar, which is drawn again below the row (ECMA-48).
_CLEARED = "\r\x1b[K"


class Lines:
    """Prints rows of the kind `kind` by `text`; `found`: the resolved names; `rules`: a file of CDN rules."""

    def __init__(
        self,
        kind: str,
        text: Callable[[sentences.EngineRow], str],
        given: Arguments,
        found: ResolvedNames | None,
        rules: Path | None,
    ) -> None:
        self._found, self._sentence = found, text
        self._has_sizes = given.has("--initial-size")
        self._name, self._place = _NAME, _PLACE
        if found is not None:
            self._name = max(len(domain) for _, domain in found.targets)
            self._place = max(len(ip) for ip, _ in found.targets)
        shares = sys.stdout.isatty() and sys.stderr is not None and sys.stderr.isatty()
        self._before = _CLEARED if shares else ""
        self._cdns = None
        if kind != "dns_answer":
            from cli.engines.cdns import Cdns

            self._cdns = Cdns(rules)

    def show(self, line: bytes) -> None:
        """Print a JSON line's row."""
        row: dict[str, Any] = json.loads(line)
        if self._cdns is None:
            head = [row["domain"].ljust(self._name), row["qtype"].ljust(len("AAAA "))]
            text = self._sentence(row)
        else:
            head = [row["domain"].ljust(self._name)] if self._name else []
            head.append(sentences.place(row).ljust(self._place))
            aliases = [] if self._found is None else self._found.aliases.get(row["domain"], [])
            cdn = self._cdns.of(row, aliases)
            size = f"Initial of {row['initial_size']} bytes" if self._has_sizes else None
            text = ", ".join(filter(None, [self._sentence(row), size, cdn]))
        sys.stdout.write(self._before)
        terminal.echo("  ".join([*head, text]))
