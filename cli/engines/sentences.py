"""Describes each row of an engine in a line of text, with times in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]

_STATUSES = {
    "NODATA": "no record of this type",
    "NXDOMAIN": "no such name",
    "TIMEOUT": "no answer from the resolver",
    "REFERRAL": "the server does not resolve for us",
}
_NO_PACKETS = {"blocked": "not contacted", "send_failed": "not sent"}


def quic_probe(row: Row) -> str:
    """Return a probe's first answer (record kind `quic_probe`)."""
    outcome = row["outcome"]
    ack, hello = f"{_ms(row['ack_us'])}", f"{_ms(row['sh_us'])}"
    sentences = {
        "iack": f"instant ACK after {ack}, ServerHello {_ms(row['ack_to_sh_us'])} later",
        "coalesced": f"ACK and ServerHello together after {hello}",
        "sh_first": f"ServerHello after {hello}, no ACK before it",
        "ack_only": f"ACK after {ack}, no ServerHello",
        "retry": f"Retry after {_ms(row['retry_us'])}, no answer to its token",
        "version_negotiation": f"Version Negotiation after {_ms(row['vn_us'])}: {row['version_list']}",
        "closed": "closed by the server" + _close(row),
        "refused": "refused",
        "timeout": "no answer" if row["attempts"] < 2 else f"no answer to {row['attempts']} connections",
    }
    return _joined(sentences.get(outcome) or _outcome(row), _more_of_probe(row))


def quic_handshake(row: Row) -> str:
    """Return the result of a handshake and the following request (record kind `quic_handshake`)."""
    outcome = row["outcome"]
    sentences = {
        "done": f"handshake after {_ms(row['handshake_us'])}",
        "handshake_failed": f"handshake failed: TLS alert {row['alert']} from the {row['alert_by']}",
        "retry_loop": "two Retries",
        "version_negotiation": f"Version Negotiation: {row['version_list']}",
        "closed": "closed by the server" + _close(row),
        "refused": "refused",
        "timeout": "no answer" if row["stage"] == "sent" else f"not complete in time, after {row['stage']}",
    }
    return _joined(sentences.get(outcome) or _outcome(row), _more_of_handshake(row))


def tcp_option(row: Row) -> str:
    """Return the TCP options that a server agreed to (record kind `tcp_option`)."""
    if row["outcome"] in ("refused", "timeout"):
        return {"refused": "refused", "timeout": "no answer"}[row["outcome"]]
    if row["outcome"] != "answered":
        return _outcome(row)
    options = [
        (row["window_scaling"], f"window scale {row['wscale']}", "no window scaling"),
        (row["sack"], "SACK", "no SACK"),
        (row["timestamps"], "timestamps", "no timestamps"),
        (row["ecn"], "ECN", "no ECN"),
    ]
    agreed = [yes if value else no for value, yes, no in options if value is not None]
    size = [] if row["mss"] is None else [f"segments of {row['mss']} bytes"]
    return _joined(f"SYN-ACK after {_ms(row['rtt_us'])}", [*size, *agreed])


def dns_answer(row: Row) -> str:
    """Return a record of an answer, or the status of an answer without one (record kind `dns_answer`)."""
    aliases = [f"alias of {row['cname_chain'][-1]}"] if row["cname_chain"] else []
    if row["answer_rank"] is None:
        status = _STATUSES.get(row["status"])
        text = row["status"] if status is None else f"{status} ({row['status']})"
        return _joined(text, [*aliases, *filter(None, [row["detail"]])])
    return _joined(row["address"] or row["data"] or _service(row), [*aliases, f"for {row['ttl']} s"])


OF_KIND: dict[str, Callable[[Row], str]] = {
    "quic_probe": quic_probe,
    "quic_handshake": quic_handshake,
    "tcp_option": tcp_option,
    "dns_answer": dns_answer,
}
"""Record kind -> function of a row that returns the text."""


def place(row: Row) -> str:
    """Return a row's address, with the port unless that is 443."""
    if row["port"] == 443:
        return str(row["ip"])
    return f"[{row['ip']}]:{row['port']}" if ":" in row["ip"] else f"{row['ip']}:{row['port']}"


def _more_of_probe(row: Row) -> Iterator[str]:
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


def _more_of_handshake(row: Row) -> Iterator[str]:
    if row["first_answer"] == "iack":
        yield f"instant ACK after {_ms(row['ack_us'])}"
    if row["alpn"] is not None:
        yield row["alpn"]
    if row["status"] is not None:
        yield f"status {row['status']} after {_ms(row['response_us'])}"
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


def _outcome(row: Row) -> str:
    """Return an outcome that has no text here, with the details."""
    outcome = str(_NO_PACKETS.get(row["outcome"], row["outcome"]))
    return f"{outcome}: {row['detail']}" if row["detail"] else outcome


def _close(row: Row) -> str:
    code = "" if row["close_code"] is None else f" with 0x{row['close_code']:x}"
    return code + (f": {row['close_reason']}" if row["close_reason"] else "")


def _service(row: Row) -> str:
    """Return an HTTPS record (RFC 9460) in a zone file's order."""
    parameters = {
        "alpn": ",".join(row["https_alpn"]),
        "port": row["https_port"],
        "ipv4hint": ",".join(row["https_ipv4hint"]),
        "ipv6hint": ",".join(row["https_ipv6hint"]),
    }
    texts = [f"{name}={value}" for name, value in parameters.items() if value]
    texts += ["ech"] if row["https_ech"] else []
    return " ".join([str(row["https_priority"]), row["https_target"], *texts])


def _joined(text: str, more: Any) -> str:
    return ", ".join([text, *more])


def _ms(value: int | None) -> str:
    """Return microseconds in milliseconds; a time that was not observed is not zero."""
    return "an unknown time" if value is None else f"{value / 1000:.1f} ms"
