"""`firstflight probe`: the native prober."""

from __future__ import annotations

from collections.abc import Iterator

from cli.engines.command import engine
from cli.engines.sentences import EngineRow, close_text, joined, ms, outcome_text


def text(row: EngineRow) -> str:
    """Return a probe's first answer (record kind `quic_probe`)."""
    outcome = row["outcome"]
    ack, hello = f"{ms(row['ack_us'])}", f"{ms(row['sh_us'])}"
    sentences = {
        "iack": f"instant ACK after {ack}, ServerHello {ms(row['ack_to_sh_us'])} later",
        "coalesced": f"ACK and ServerHello together after {hello}",
        "sh_first": f"ServerHello after {hello}, no ACK before it",
        "ack_only": f"ACK after {ack}, no ServerHello",
        "retry": f"Retry after {ms(row['retry_us'])}, no answer to its token",
        "version_negotiation": f"Version Negotiation after {ms(row['vn_us'])}: {row['version_list']}",
        "closed": "closed by the server" + close_text(row),
        "refused": "refused",
        "timeout": "no answer" if row["attempts"] < 2 else f"no answer to {row['attempts']} connections",
    }
    return joined(sentences.get(outcome) or outcome_text(row), _more(row))


def _more(row: EngineRow) -> Iterator[str]:
    if row["retried"] and row["outcome"] != "retry":
        yield "after a Retry"
    if row["hello_retry"]:
        yield "after a HelloRetryRequest"
    if row["attempts"] > 1 and row["outcome"] != "timeout":
        yield f"connection {row['attempts']}"
    if row["ecn_verdict"] is not None:
        yield f"ECN {row['ecn_verdict'].replace('_', ' ')}"
    if row["retransmissions"] is not None:
        yield f"{row['retransmissions']} retransmissions in {row['listened_s']:.1f} s"


command = engine("firstflight-prober", "quic_probe", text)
