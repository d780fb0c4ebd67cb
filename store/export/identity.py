"""Classifies columns of record files: which identify a measured host, or a machine that measured.

Every text column is in exactly one group. A test fails if a new column has no group.
"""

from __future__ import annotations

from enum import Enum

from schemas.records import Column


class Holds(Enum):
    """A text column's content."""

    NAME = "the name of a host"
    SERVER = "the address of a server"
    CLIENT = "an address or a name of the machines that measured, or of their resolver"
    CERTIFICATE = "a hash or number by which certificate logs find a certificate, and so its names"
    URL = "a URL"
    TEXT = "text of a server or about it, in which names may occur"
    OTHER = "other content"


_GROUPS = {
    Holds.NAME: "domain sni cname_chain https_target https_ech_public_names ech_retry_public_names sans",
    Holds.SERVER: "ip address drawn_ip server_ip https_ipv4hint https_ipv6hint",
    Holds.CLIENT: "src_ip client_ip resolver host worker",
    Holds.CERTIFICATE: "sha256 issuer_sha256 chain_sha256 leaf_sha256 serial",
    Holds.URL: "url found_on location",
    Holds.TEXT: (
        "alt_svc close_reason closed_reason data detail etag headers second_detail subject verify_error via "
        "error cache_control cache_status cache age robots reason server_header server x_cache x_served_by "
        "cf_ray settings"
    ),
    Holds.OTHER: (
        "run vantage list_id cdn cdn_by_asn cdn_by_cname cdn_by_header cdn_by_certificate outcome stage "
        "tool_version ruleset source_file capture_file version version_list version_used version_change "
        "versions_offered versions_available client_cid server_cid client_scid server_scid odcid ack_frames "
        "ecn ecn_verdict qtype status https_alpn transport alert_by first_answer first_ack_datagrams "
        "first_answer_any_ack transport_parameters transport_parameters_client transport_parameters_server "
        "min_ack_delay_id min_ack_delay_id_client min_ack_delay_id_server multipath_id stack "
        "stack_fingerprint cipher cipher_suite group alpn alpn_selected ech_offered certificate_compression "
        "http edge_location second_outcome second_stage second_early_data second_first_answer second_http "
        "issuer key_algorithm signature_algorithm set client client_version http_version tls_version "
        "tls_group content_type content_encoding last_modified method x_amz_cf_pop purpose state first "
        "probe_outcome handshake_outcome handshake_stage handshake_first_answer prefix as_name org_id "
        "organisation country registry as2org_file capture_side acks_from rtt_series_at_us rtt_series_us "
        "pto_series_us closed_by protocol resolved_status target_set limited_by"
    ),
}
_OF_NAME = {name: holds for holds, names in _GROUPS.items() for name in names.split()}


def of(column: Column) -> Holds:
    """Return a column's content; KeyError for a text column without a group."""
    if column.type not in ("string", "list<string>"):
        return Holds.OTHER
    return _OF_NAME[column.name]
