"""Expected results of the handshake stage: columns of quic_handshake, http3_response and certificate.

They follow from the behaviour file, the manifests of the stacks and the servers' certificates. They are valid
for handshakes that offer X25519 first and check chains against the lab's root (`--verify chain`). No
measuring stage reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding

from firstflight.errors import UsageError
from lab import stacks
from lab.declared.internet import Internet
from lab.declared.model import CertificateName, Endpoint, HttpAnswer
from lab.expected.chains import Described, LabChains
from lab.hosts.servers import PORT

Columns = dict[str, Any]

NO_APPLICATION_PROTOCOL = 120  # RFC 7301 3.2
CRYPTO_ERROR = 0x100  # RFC 9001 4.8: added to a TLS alert
VERSION_1 = "0x00000001"
OTHERS = "Others"
PORT_UNREACHABLE = {4: (3, 3), 6: (1, 4)}  # ICMP type and code by family
# Certificates with a chain to the lab's root, and certificates that are valid for their server's name.
VERIFIED: frozenset[CertificateName] = frozenset({"small", "large", "other_name"})
MATCHING: frozenset[CertificateName] = frozenset({"small", "large", "self_signed", "expired"})

# Null unless the handshake is complete.
OF_COMPLETE = (
    *("transport_parameters", "min_ack_delay_us", "min_ack_delay_id", "max_datagram_frame_size"),
    *("multipath_id", "multipath_value"),
    *("versions_available", "migration_disabled", "preferred_address", "stack", "cipher", "group", "alpn"),
    *("tickets", "early_data", "tokens"),
    *("certificate_compression", "certificate_bytes", "certificate_uncompressed_bytes", "chain_sha256"),
    *("leaf_sha256", "chain_length", "ocsp_stapled", "signature_valid", "verified", "name_matches"),
    *("http", "status", "server_header", "edge_location", "cdn_by_header", "cdn_by_certificate"),
)
# Columns of http3_response that hold a single field.
FIELDS = ("server", "alt_svc", "via", "location", "cf_ray", "x_amz_cf_pop", "x_cache", "x_served_by", "age")


class HandshakeTruth:
    """The truth about handshakes with a lab's endpoints."""

    def __init__(self, internet: Internet, state: Path | None = None) -> None:
        self._internet = internet
        self._chains = LabChains(state)
        self._drops = {drop.ip: drop.rule for drop in internet.drops}
        # Maps a host to the CDN of the same name. The host's servers send the fields of this CDN.
        self._fields_of = {name.lower(): name for name in internet.cdns}

    def columns(self, endpoint: Endpoint) -> Columns:
        """Return columns of quic_handshake with their values.

        `transport_parameters` holds only the parameters with known values: {name: value}. Columns of the
        chain are missing if the lab was never started.
        """
        expected: Columns = {
            **dict.fromkeys(OF_COMPLETE),
            "domain": endpoint.domain,
            "ip": endpoint.ip,
            "port": PORT,
            "asn": endpoint.asn,
            "cdn": endpoint.cdn,
            "cdn_by_asn": endpoint.cdn,
            "cdn_by_cname": OTHERS,  # no alias in the lab has a CDN's real name
            "version": None if endpoint.outcome == "blocked" else VERSION_1,
            "versions_offered": None if endpoint.outcome == "blocked" else VERSION_1,
            "version_change": None,
            "ech_offered": None,
            "ech_accepted": None,
            "ech_retry_config_ids": [],
            "ech_retry_public_names": [],
            "hello_retry": False,
            "icmp_type": None,
            "icmp_code": None,
        }
        incomplete = self._incomplete(endpoint)
        if incomplete is not None:
            expected |= incomplete.model_dump()
            if incomplete.outcome == "refused":
                family = 6 if ":" in endpoint.ip else 4
                expected["icmp_type"], expected["icmp_code"] = PORT_UNREACHABLE[family]
            return expected
        if endpoint.outcome == "blocked":
            blocked = stacks.Incomplete(outcome="blocked", stage="").model_dump()
            return expected | blocked | {"stage": None}
        return expected | self._complete(endpoint)

    def at_least(self, endpoint: Endpoint, vantage: str) -> dict[str, int]:
        """Return the shortest possible times for a complete handshake, in microseconds by column.

        Every flight lasts the declared round-trip time, and answers are delayed as declared. SETTINGS arrive
        when the handshake is complete.
        """
        if self.columns(endpoint)["outcome"] != "done":
            return {}
        rtt = self._internet.rtt_us(vantage, endpoint.host)
        delay_us = endpoint.delay_us or 0
        holds_certificate = endpoint.mode == "sh_then_certificate"
        held_us = rtt + delay_us * (endpoint.mode in ("wait", "retry", "iack", "retry_iack"))
        complete_us = rtt + delay_us
        bounds = {
            "ack_us": rtt if endpoint.mode in ("iack", "retry_iack") or holds_certificate else held_us,
            "sh_us": rtt if holds_certificate else held_us,
            "certificate_us": complete_us,
            "handshake_us": complete_us,
            "confirmed_us": complete_us + rtt,
            "settings_us": complete_us + rtt,
            "rtt_first_us": rtt,
            "rtt_min_us": rtt,
        }
        if self._drops.get(endpoint.ip) == "first_answer":
            del bounds["ack_us"]  # lost
        if endpoint.http is not None:
            bounds["response_us"] = complete_us + rtt + (endpoint.http.delay_us or 0)
        return bounds

    def response(self, endpoint: Endpoint) -> Columns | None:
        """Return columns of http3_response; `None` if there is no response.

        `headers` and `settings` hold the expected entries. Servers may send additional ones.
        """
        if endpoint.http is None or self.columns(endpoint)["outcome"] != "done":
            return None
        fields = dict(endpoint.http.headers)
        settings = self._shown(endpoint).settings
        return {
            "domain": endpoint.domain,
            "ip": endpoint.ip,
            "port": PORT,
            "status": endpoint.http.status,
            "headers": [list(field) for field in endpoint.http.headers],
            **{name: fields.get(name.replace("_", "-")) for name in FIELDS},
            "settings": settings,
            "qpack_max_table_capacity": settings.get("0x1"),
            "qpack_blocked_streams": settings.get("0x7"),
            "max_field_section_size": settings.get("0x6"),
            "goaway": False,
        }

    def certificates(self) -> Iterator[Columns]:
        """Yield columns of certificate, once for each certificate in a complete handshake."""
        served = {
            (e.stack, e.certificate) for e in self._internet.endpoints if self.columns(e)["outcome"] == "done"
        }
        for stack, certificate in sorted(served):
            chain = [Described(element) for element in self._chains.of(stack, certificate)]
            for position, described in enumerate(chain):
                issuer = chain[position + 1].sha256 if position + 1 < len(chain) else None
                yield {"position": position, "issuer_sha256": issuer, **described.columns}

    def _shown(self, endpoint: Endpoint) -> stacks.SharedColumns:
        shown = stacks.find(endpoint.stack).shown
        if shown is None:
            raise UsageError(
                f"lab/stacks/{endpoint.stack}/manifest.toml has neither the results of a complete handshake "
                f"([shown]) nor of {endpoint.mode} ([incomplete]): {endpoint.domain} needs one of them"
            )
        return shown

    def _incomplete(self, endpoint: Endpoint) -> stacks.Incomplete | None:
        """Return the result of an incomplete handshake; `None` for other endpoints."""
        if endpoint.outcome == "blocked":
            return None
        if endpoint.stack == stacks.NO_SERVER:
            return stacks.Incomplete(outcome="refused", stage="sent")
        if self._drops.get(endpoint.ip) == "odd_flows":
            # An earlier probe of the same repetition used two flows (the first time) or one flow, so this
            # handshake is an odd flow, which the link drops.
            return stacks.Incomplete(outcome="timeout", stage="sent")
        if endpoint.alpn == "":
            return stacks.Incomplete(
                outcome="handshake_failed",
                stage="server_hello",
                first_answer=self._first_answer(endpoint),
                alert=NO_APPLICATION_PROTOCOL,
                alert_by="client",
            )
        if endpoint.alpn != "h3":
            return stacks.Incomplete(
                outcome="handshake_failed",
                stage="sent",
                alert=NO_APPLICATION_PROTOCOL,
                alert_by="server",
                close_code=CRYPTO_ERROR + NO_APPLICATION_PROTOCOL,
                close_by_application=False,
                close_reason="",
            )
        return stacks.find(endpoint.stack).incomplete.get(endpoint.mode)

    def _first_answer(self, endpoint: Endpoint) -> str:
        if self._drops.get(endpoint.ip) == "first_answer":
            return "sh_first"
        # A HelloRetryRequest acknowledges the first ClientHello, long before the ServerHello.
        return "iack" if endpoint.mode in ("iack", "retry_iack", "hello_retry") else "coalesced"

    def _complete(self, endpoint: Endpoint) -> Columns:
        shown = self._shown(endpoint)
        answer = endpoint.http
        expected: Columns = {
            "outcome": "done",
            "stage": "response" if answer else "confirmed",
            "version_list": None,
            "versions_available": _available(shown.transport_parameters.get("version_information")),
            "alert": None,
            "alert_by": None,
            "close_code": None,
            "close_by_application": None,
            "close_reason": None,
            "first_answer": self._first_answer(endpoint),
            "retry": endpoint.mode in ("retry", "retry_iack"),
            "hello_retry": endpoint.mode == "hello_retry",
            "transport_parameters": shown.transport_parameters,
            "min_ack_delay_us": None,
            "min_ack_delay_id": None,
            "max_datagram_frame_size": None,
            "multipath_id": None,
            "multipath_value": None,
            "migration_disabled": False,
            "preferred_address": False,
            "stack": endpoint.stack,
            "cipher": shown.cipher,
            "group": "secp384r1" if endpoint.mode == "hello_retry" else "X25519",
            "alpn": endpoint.alpn,
            "tickets": shown.tickets,
            "early_data": shown.early_data,
            "tokens": shown.tokens,
            "certificate_compression": None,
            "ocsp_stapled": False,
            "signature_valid": True,
            "verified": endpoint.certificate in VERIFIED,
            "name_matches": endpoint.certificate in MATCHING,
            **_answered(answer),
            "cdn_by_header": self._fields_of.get(endpoint.host, OTHERS) if answer else None,
            "cdn_by_certificate": OTHERS,  # names and issuers belong to the lab
        }
        return expected | self._chain(endpoint)

    def _chain(self, endpoint: Endpoint) -> Columns:
        ders = [
            certificate.public_bytes(Encoding.DER)
            for certificate in self._chains.of(endpoint.stack, endpoint.certificate)
        ]
        if not ders:
            return {}
        # RFC 8446 4.4.2: type and length, empty context, length of the list; each entry has a length and an
        # empty list of extensions.
        message = 4 + 1 + 3 + sum(3 + len(der) + 2 for der in ders)
        return {
            "chain_sha256": sha256(b"".join(ders)).hexdigest(),
            "leaf_sha256": sha256(ders[0]).hexdigest(),
            "chain_length": len(ders),
            "certificate_bytes": message,
            "certificate_uncompressed_bytes": message,
        }


def _available(information: object) -> str | None:
    """Return the Available Versions (hex digits) of version_information, without the Chosen Version."""
    if information is None:
        return None
    digits = str(information)[8:]
    return ",".join(f"0x{digits[begin : begin + 8]}" for begin in range(0, len(digits), 8))


def _answered(answer: HttpAnswer | None) -> Columns:
    if answer is None:
        # Its server's idle timeout is shorter than the campaign's time for a connection.
        return {"http": "idle", "status": None, "server_header": None, "edge_location": None}
    return {
        "http": "response",
        "status": answer.status,
        "server_header": dict(answer.headers).get("server"),
        "edge_location": answer.place,
    }
