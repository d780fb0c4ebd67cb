"""`firstflight resolve`: the native resolver client."""

from __future__ import annotations

from cli.engines.command import engine
from cli.engines.sentences import EngineRow, joined

_STATUSES = {
    "NODATA": "no record of this type",
    "NXDOMAIN": "no such name",
    "TIMEOUT": "no answer from the resolver",
    "REFERRAL": "the server does not resolve for us",
}


def text(row: EngineRow) -> str:
    """Return a record of an answer, or the status of an answer without one (record kind `dns_answer`)."""
    aliases = [f"alias of {row['cname_chain'][-1]}"] if row["cname_chain"] else []
    if row["answer_rank"] is None:
        status = _STATUSES.get(row["status"])
        status_text = row["status"] if status is None else f"{status} ({row['status']})"
        return joined(status_text, [*aliases, *filter(None, [row["detail"]])])
    return joined(row["address"] or row["data"] or _service(row), [*aliases, f"for {row['ttl']} s"])


def _service(row: EngineRow) -> str:
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


command = engine("firstflight-resolve", "dns_answer", text)
