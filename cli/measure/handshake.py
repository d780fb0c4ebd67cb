"""`firstflight handshake`: the native engine that completes handshakes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cli.engines.command import Prepared, engine
from cli.engines.sentences import EngineRow, close_text, joined, ms, outcome_text
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


def text(row: EngineRow) -> str:
    """Return the result of a handshake and the following request (record kind `quic_handshake`)."""
    outcome = row["outcome"]
    sentences = {
        "done": f"handshake after {ms(row['handshake_us'])}",
        "handshake_failed": f"handshake failed: TLS alert {row['alert']} from the {row['alert_by']}",
        "retry_loop": "two Retries",
        "version_negotiation": f"Version Negotiation: {row['version_list']}",
        "closed": "closed by the server" + close_text(row),
        "refused": "refused",
        "timeout": "no answer" if row["stage"] == "sent" else f"not complete in time, after {row['stage']}",
    }
    return joined(sentences.get(outcome) or outcome_text(row), _more(row))


def _more(row: EngineRow) -> Iterator[str]:
    if row["first_answer"] == "iack":
        yield f"instant ACK after {ms(row['ack_us'])}"
    if row["alpn"] is not None:
        yield row["alpn"]
    if row["status"] is not None:
        yield f"status {row['status']} after {ms(row['response_us'])}"
    elif row["http"] is not None:
        yield f"HTTP {row['http'].replace('_', ' ')}"
    if row["stack"] is not None:
        yield row["stack"]
    if row["signature_valid"] is False:
        yield "the signature is not valid"
    if row["verified"] is False:
        yield f"the chain is not valid ({row['verify_error']})"
    if row["name_matches"] is False:
        yield "the certificate is for another name"


command = engine("firstflight-handshake", "quic_handshake", text, _with_rules)
