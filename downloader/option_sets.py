"""The sets that are compared: which TCP options a client offers, or which QUIC stack it is.

Of the ANRW paper (section 3) and its authors' extended file; docs/definitions.md, "Downloads".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from firstflight.errors import UsageError

Protocol = Literal["tcp", "udp"]
HttpVersion = Literal["1.1", "2", "3"]

# The largest receive buffer that Linux takes: with it the announced window is limited by the clamp alone.
_RMEM = "4096 1073725440 1073725440"


@dataclass(frozen=True)
class OptionSet:
    """One set: its client and what its SYN offers. `window_scale` None: no window scaling."""

    name: str
    client: str
    http: HttpVersion = "1.1"
    ecn: bool = False
    sack: bool = False
    window_scale: int | None = None

    @property
    def protocol(self) -> Protocol:
        """The transport protocol of its downloads."""
        return "udp" if self.http == "3" else "tcp"

    @property
    def window_clamp(self) -> int | None:
        """The value of TCP_WINDOW_CLAMP with which Linux offers this scale; None without scaling."""
        return None if self.window_scale is None else 65535 << self.window_scale

    def sysctls(self) -> dict[str, str]:
        """Return the settings of the set's network namespace, each one explicit (names below /proc/sys/net).

        The scale comes from the clamp of each socket: net.core.rmem_max belongs to the whole machine.
        """
        return {
            "ipv4/tcp_ecn": str(int(self.ecn)),
            "ipv4/tcp_sack": str(int(self.sack)),
            "ipv4/tcp_window_scaling": str(int(self.window_scale is not None)),
            "ipv4/tcp_timestamps": "1",
            "ipv4/tcp_fastopen": "0",
            "ipv4/tcp_moderate_rcvbuf": "1",
            "ipv4/tcp_rmem": _RMEM,
        }


WARMUP = "warmup"
SETS: dict[str, OptionSet] = {
    one.name: one
    for one in (
        OptionSet(WARMUP, "curl"),
        OptionSet("bl", "curl"),
        OptionSet("ecn", "curl", ecn=True),
        OptionSet("sack", "curl", sack=True),
        OptionSet("ws14", "curl", window_scale=14),
        OptionSet("ws14_sack", "curl", sack=True, window_scale=14),
        OptionSet("ws14_ecn", "curl", ecn=True, window_scale=14),
        OptionSet("all14", "curl", ecn=True, sack=True, window_scale=14),
        OptionSet("all7", "curl", ecn=True, sack=True, window_scale=7),
        OptionSet("all14_h2", "curl", http="2", ecn=True, sack=True, window_scale=14),
        OptionSet("quiche", "quiche", http="3"),
        OptionSet("libcurl", "curl", http="3"),
        OptionSet("aioquic", "aioquic", http="3"),
    )
}


def chosen(text: str) -> list[OptionSet]:
    """Return the sets that a comma-separated list names, in its order, the warm-up first and always.

    UsageError for an unknown name, one that is there twice, or no set besides the warm-up.
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in SETS:
            raise UsageError(f"{name!r} is no option set: choose from {', '.join(SETS)}")
        if names.count(name) > 1:
            raise UsageError(f"the option set {name} is named twice")
    compared = [SETS[name] for name in names if name != WARMUP]
    if not compared:
        raise UsageError(f"no option set is chosen besides {WARMUP}: name one or more of {', '.join(SETS)}")
    return [SETS[WARMUP], *compared]
