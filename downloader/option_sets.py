"""The option sets to compare: the TCP options that a client offers, or a QUIC stack.

The sets are from the ANRW paper (section 3) and its authors' extended file; see docs/definitions.md,
"Downloads".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from firstflight.errors import UsageError

Protocol = Literal["tcp", "udp"]
HttpVersion = Literal["1.1", "2", "3"]

# The largest receive buffer that Linux accepts, so that only the clamp limits the announced window.
_RMEM = "4096 1073725440 1073725440"


@dataclass(frozen=True)
class OptionSet:
    """One set: its client, and the options in its SYN. `window_scale` is `None` without window scaling."""

    name: str
    client: str
    http: HttpVersion = "1.1"
    ecn: bool = False
    sack: bool = False
    window_scale: int | None = None

    @property
    def protocol(self) -> Protocol:
        """The transport protocol."""
        return "udp" if self.is_quic else "tcp"

    @property
    def is_quic(self) -> bool:
        """Whether the set uses QUIC."""
        return self.http == "3"

    @property
    def window_clamp(self) -> int | None:
        """The value of TCP_WINDOW_CLAMP for which Linux offers this scale; `None` without window scaling."""
        return None if self.window_scale is None else 65535 << self.window_scale

    def sysctls(self) -> dict[str, str]:
        """Return all settings of the set's network namespace (names below /proc/sys/net).

        They do not include the scale, because net.core.rmem_max applies to the whole machine. Each socket's
        clamp sets the scale.
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
TCP, QUIC, BOTH = "tcp", "quic", "both"
"""Target sets of a name."""
# The TCP sets that the paper compares with QUIC, for names of the QUIC target set (ANRW 2023, section 6.2).
_WITH_QUIC = (WARMUP, "bl", "all14")
SETS: dict[str, OptionSet] = {
    option_set.name: option_set
    for option_set in (
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


def of_target_set(sets: Sequence[OptionSet], target_set: str | None) -> list[OptionSet]:
    """Return the sets for a name of this target set; all for a name of both, or without a target set.

    A name of the TCP target set has the TCP sets. A name of the QUIC target set has the QUIC stacks, the
    baseline and all14. The warm-up always remains.
    """
    if target_set == TCP:
        return [option_set for option_set in sets if not option_set.is_quic]
    if target_set == QUIC:
        return [option_set for option_set in sets if option_set.is_quic or option_set.name in _WITH_QUIC]
    return list(sets)


def compares_tcp(sets: Sequence[OptionSet]) -> bool:
    """Return whether these sets have a TCP set in addition to the warm-up."""
    return any(not option_set.is_quic for option_set in sets if option_set.name != WARMUP)


def chosen(text: str) -> list[OptionSet]:
    """Return the sets in a comma-separated list, in this order. The warm-up is always included, as the first.

    Raise UsageError for an unknown name, a duplicate name, or a list with no set except the warm-up.
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
