"""`firstflight handshake`: the native engine that completes handshakes."""

from __future__ import annotations

import os
from pathlib import Path

from cli.engines.command import Prepared, engine
from firstflight.cdn import rules
from firstflight.errors import UsageError

_OPTION = "--cdn-rules"


def _with_rules(arguments: tuple[str, ...]) -> Prepared:
    """Return the arguments with the CDN rules as JSON, checked, in a file without a name."""
    file, others = _rules_of(arguments)
    descriptor = os.memfd_create("cdn-rules", 0)  # the engine inherits it
    with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as out:
        out.write(rules.as_json(rules.load(file)))
    return Prepared((f"{_OPTION}=/proc/self/fd/{descriptor}", *others), (descriptor,), file)


def _rules_of(arguments: tuple[str, ...]) -> tuple[Path | None, list[str]]:
    """Return the file of --cdn-rules, if it is given, and the other arguments."""
    file: Path | None = None
    others: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, value = argument.partition("=")
        if name != _OPTION:
            others.append(argument)
            continue
        value = value if equals else next(remaining, "")
        if not value or file is not None:
            raise UsageError(f"{_OPTION} needs the name of one file, once")
        file = Path(value)
    return file, others


command = engine("firstflight-handshake", "quic_handshake", _with_rules)
