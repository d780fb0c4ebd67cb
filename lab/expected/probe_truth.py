"""Expected results of probes with further options: the largest Initial and an endpoint's ECN verdict."""

from __future__ import annotations

from lab import stacks
from lab.declared.internet import Internet
from lab.declared.model import LARGEST_IP, Endpoint

# IP and UDP headers; an Ethernet frame carries 1,500 bytes.
_HEADERS = {4: 28, 6: 48}
_MTU = 1500
_UNSENT = ("blocked",)
_WITHOUT_ACK = ("refused", "timeout", "closed", "sh_first", "retry", "version_negotiation", "malformed")


class ProbeTruth:
    """The truth about probes with `--initial-size` and `--ecn ect0`."""

    def __init__(self, internet: Internet) -> None:
        self._drops = {drop.ip: drop.rule for drop in internet.drops}
        self._paths = {path.ip: path.rule for path in internet.ecn_paths}

    def largest_initial(self, endpoint: Endpoint) -> int | None:
        """Return the largest UDP payload that reaches the server; `None` if the prober sends no packet."""
        if endpoint.outcome in _UNSENT:
            return None
        mtu = LARGEST_IP if self._drops.get(endpoint.ip) == "over_1350" else _MTU
        shown = None if endpoint.stack == stacks.NO_SERVER else stacks.find(endpoint.stack).shown
        # A server with max_udp_payload_size may drop longer datagrams (RFC 9000 18.2).
        accepted = shown.transport_parameters.get("max_udp_payload_size", _MTU) if shown else _MTU
        return min(mtu - _HEADERS[6 if ":" in endpoint.ip else 4], int(accepted))

    def ecn_verdict(self, endpoint: Endpoint) -> str | None:
        """Return `ecn_verdict` for a probe with ECT(0); `None` without an ACK."""
        stack = None if endpoint.stack == stacks.NO_SERVER else stacks.find(endpoint.stack)
        acknowledges = endpoint.mode in ("sh_first_late_ack", "closed_with_ack")
        if (
            stack is None
            or endpoint.outcome in _UNSENT
            or (endpoint.outcome in _WITHOUT_ACK and not acknowledges)
        ):
            return None
        if endpoint.mode in stack.ecn:
            return stack.ecn[endpoint.mode]
        # A server that counts ECN marks but sees no mark sends an ACK without counts (RFC 9000 13.4.1).
        mirrored = stack.mirrors_ecn and self._paths.get(endpoint.ip) != "bleached"
        return "valid" if mirrored else "not_mirrored"
