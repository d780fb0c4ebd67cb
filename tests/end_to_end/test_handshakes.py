"""Every column of the handshake stage's rows matches the lab's declaration, or is excluded with a reason."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from functools import cache, partial
from statistics import median
from typing import Any

import pytest

from schemas import records
from tests.end_to_end.conftest import REPETITIONS, FinishedCampaign
from tests.end_to_end.site import COPIED, VANTAGES

Row = dict[str, Any]
SOURCES = {
    "hamburg": ("198.18.0.11", "2001:db8:0:11::1"),
    "los_angeles": ("198.18.0.12", "2001:db8:0:12::1"),
    "sao_paulo": ("198.18.0.13", "2001:db8:0:13::1"),
    "hong_kong": ("198.18.0.14", "2001:db8:0:14::1"),
}
MILESTONES = {
    "ack": "ack_us",
    "server_hello": "sh_us",
    "certificate": "certificate_us",
    "handshake": "handshake_us",
    "confirmed": "confirmed_us",
    "response": "response_us",
}
BLOCKED = "blocked"
# A time cannot be shorter than the link's delay, except by the rounding of both.
ROUNDING_US = 1
# A delay error of this size, in an edge or in the rows, shifts the median of the CDN.
FAULT_US = 1000
DATAGRAM_BYTES = 1280


@cache
def handshakes(finished: FinishedCampaign) -> list[Row]:
    """Return all rows of quic_handshake, in the order of the schema."""
    return finished.site.sql(f"SELECT * FROM quic_handshake WHERE run = '{finished.run}'")


@cache
def responses(finished: FinishedCampaign) -> list[Row]:
    return finished.site.sql(f"SELECT * FROM http3_response WHERE run = '{finished.run}'")


@cache
def certificates(finished: FinishedCampaign) -> list[Row]:
    return finished.site.sql(f"SELECT * FROM certificate WHERE run = '{finished.run}'")


def columns(kind: str) -> set[str]:
    return {column.name for column in records.load(kind).columns}


def declared(finished: FinishedCampaign, row: Row) -> Row:
    """Return the declared values for a row."""
    return finished.truth[row["vantage"], row["domain"], row["ip"]]


# --------------------------------------------------------------------------------- columns by relations


def sent(row: Row) -> bool:
    return bool(row["outcome"] != BLOCKED)


def in_order(row: Row) -> bool:
    """The times increase in the order of the milestones, and `stage` is the last milestone reached."""
    reached = [name for name, column in MILESTONES.items() if row[column] is not None]
    times = [row[MILESTONES[name]] for name in reached if name not in ("ack", "confirmed")]
    last = "sent" if sent(row) else None
    return times == sorted(times) and row["stage"] == (reached[-1] if reached else last)


def complete(column: str) -> Callable[[Row], bool]:
    """The column is null unless the handshake is complete. The truth has its least value."""
    return lambda row: (row[column] is not None) == (row["outcome"] == "done")


def bytes_add_up(row: Row) -> bool:
    return bool(
        row["bytes_first_flight"] <= row["bytes_received_unvalidated"] <= row["bytes_received"]
        and row["bytes_sent_unvalidated"] <= row["bytes_sent"]
        and row["datagrams_first_flight"] <= row["datagrams_received"]
        and (row["bytes_sent"] >= 1200) == (row["datagrams_sent"] > 0) == sent(row)
        and (row["bytes_received"] > 0) == (row["datagrams_received"] > 0)
    )


def flight_fits(row: Row) -> bool:
    """Up to the server's Finished, more bytes than the certificate's arrived, and at most the total."""
    received = row["bytes_received_handshake"]
    if row["handshake_us"] is None or received is None:
        return row["handshake_us"] is received
    return bool(row["certificate_bytes"] < received <= row["bytes_received"])


def acknowledged(row: Row) -> bool:
    """The first ACK covers the whole ClientHello, a single datagram.

    A retransmitted ClientHello has other packet numbers.
    """
    first = row["first_ack_datagrams"]
    if row["ack_us"] is None:
        return first is row["ack_covers_hello"] is None
    return row["ack_covers_hello"] is True and (first == "1" or (bool(first) and row["retransmissions"] > 0))


def limited(row: Row) -> bool:
    """No real stack exceeds the limit before address validation (RFC 9000 8.1) by more than one datagram.

    The tolerance is necessary because quic-go completes the datagram that exceeds the limit, and quiche does
    not count the zeros after an instant ACK.
    """
    limit = 3 * row["bytes_sent_unvalidated"] + DATAGRAM_BYTES
    return bool(row["outcome"] != "done" or row["retry"] or row["bytes_received_unvalidated"] <= limit)


def day_of_run(row: Row) -> str:
    """Return the start date of the run, from its ID."""
    return f"{row['run'][:4]}-{row['run'][4:6]}-{row['run'][6:8]}"


RELATIONS: dict[str, Callable[[Row], bool]] = {
    "list_id": lambda row: bool(row["list_id"]),
    "rank": lambda row: row["rank"] >= 1,
    "resolver": lambda row: row["resolver"] == "198.18.0.53",
    "sent_at": lambda row: (row["sent_at"] is not None) == sent(row),
    "src_ip": lambda row: row["src_ip"] in SOURCES[row["vantage"]] if sent(row) else row["src_ip"] is None,
    "src_port": lambda row: (row["src_port"] is not None) == sent(row),
    "client_cid": lambda row: (len(row["client_cid"] or "") == 16) == sent(row),
    "server_cid": lambda row: row["server_cid"] is not None or row["outcome"] != "done",
    **dict.fromkeys(("ack_us", "sh_us", "certificate_us", "handshake_us", "response_us"), in_order),
    "confirmed_us": complete("confirmed_us"),
    "settings_us": complete("settings_us"),
    "ack_to_sh_us": lambda row: (
        row["ack_to_sh_us"]
        == (None if None in (row["ack_us"], row["sh_us"]) else row["sh_us"] - row["ack_us"])
    ),
    "rtt_first_us": lambda row: (row["rtt_first_us"] is None) == (row["rtt_samples"] == 0),
    "rtt_min_us": lambda row: row["rtt_min_us"] is None or row["rtt_min_us"] <= row["rtt_first_us"],
    "rtt_samples": lambda row: row["rtt_samples"] >= (row["outcome"] == "done"),
    **dict.fromkeys(("bytes_sent", "bytes_received", "datagrams_sent", "datagrams_received"), bytes_add_up),
    **dict.fromkeys(("bytes_first_flight", "datagrams_first_flight", "bytes_sent_unvalidated"), bytes_add_up),
    "bytes_received_unvalidated": limited,
    "retransmissions": lambda row: (row["retransmissions"] > 0) >= (row["outcome"] == "timeout"),
    "sni": lambda row: row["sni"] is (True if sent(row) else None),
    "hello_datagrams": lambda row: row["hello_datagrams"] == (1 if sent(row) else None),
    "partial_ack_us": lambda row: row["partial_ack_us"] is None,
    **dict.fromkeys(("ack_covers_hello", "first_ack_datagrams"), acknowledged),
    "first_answer_any_ack": lambda row: row["first_answer_any_ack"] == row["first_answer"],
    "bytes_received_handshake": flight_fits,
    # No network is paused here; tests/backoff pauses one.
    "network_paused_at": lambda row: row["network_paused_at"] is None,
    "stack_fingerprint": complete("stack_fingerprint"),
    "verify_error": lambda row: (row["verify_error"] is not None) == (row["verified"] is False),
    "ttl": lambda row: row["ttl"] in (None, 64) and (row["ttl"] is not None or row["outcome"] != "done"),
    "tool_version": lambda row: row["tool_version"].endswith(f"+{COPIED}"),
    "ruleset": lambda row: bool(row["ruleset"]),
    "source_file": lambda row: row["source_file"].endswith("/handshake/quic_handshake.parquet"),
    "capture_file": lambda row: row["capture_file"] is None,
    "worker": lambda row: row["worker"] is None,
    "clock_offset_us": lambda row: row["clock_offset_us"] is not None,
    "host": lambda row: bool(row["host"]),
    "family": lambda row: row["family"] == (6 if ":" in row["ip"] else 4),
    "day": lambda row: row["day"] == (row["sent_at"][:10] if sent(row) else day_of_run(row)),
}


def is_null(name: str, row: Row) -> bool:
    return row[name] is None


# The lab's campaign does not open second connections.
RELATIONS |= {
    column.name: partial(is_null, column.name)
    for column in records.load("quic_handshake").columns
    if column.name.startswith("second_")
}
# On a busy machine, an ACK can be late, and the server retransmits.
SENT_AGAIN = {"tokens"}
OF_THE_RUN = ("run", "vantage", "repetition")
# Columns that neither the truth nor a relation checks, and the reasons.
ELSEWHERE = {
    "detail": "text for people; outcome, stage, alert and close code have what it explains",
    "discarded": "depends on which packets overtake the keys that open them",
    "after_close": "depends on when the server's last packets cross the close",
}


def test_every_column_is_held_once(finished: FinishedCampaign) -> None:
    truth = {name for line in finished.truth.values() for name in line["handshake"]}
    covered = [*truth, *RELATIONS, *OF_THE_RUN, *ELSEWHERE]
    assert sorted(covered) == sorted(columns("quic_handshake"))


def test_every_address_has_one_row_at_each_vantage_point_and_repetition(finished: FinishedCampaign) -> None:
    keys = ("vantage", "repetition", "domain", "ip")
    rows = Counter(tuple(row[key] for key in keys) for row in handshakes(finished))
    probes = Counter(tuple(row[key] for key in keys) for row in finished.rows)
    assert rows == probes
    assert {key[:2] for key in rows} == {(v, n + 1) for v in VANTAGES for n in range(REPETITIONS)}


def test_every_column_is_as_declared(finished: FinishedCampaign) -> None:
    wrong: set[tuple[object, ...]] = set()
    for row in handshakes(finished):
        truth = dict(declared(finished, row)["handshake"])
        parameters = truth.pop("transport_parameters")
        if (row["transport_parameters"] is None) != (parameters is None):
            wrong.add((row["domain"], "transport_parameters", row["transport_parameters"] is None, ""))
        elif parameters is not None:
            found = {
                parameter["name"]: parameter["value"] for parameter in json.loads(row["transport_parameters"])
            }
            wrong |= {
                (row["domain"], name, found.get(name), value)
                for name, value in parameters.items()
                if found.get(name) != value
            }
        wrong |= {
            (row["domain"], name, row[name], value)
            for name, value in truth.items()
            if row[name] != value and not (name in SENT_AGAIN and value and row[name] > value)
        }
    assert not wrong, sorted(wrong, key=str)


@pytest.mark.parametrize("column", RELATIONS)
def test_columns_fit_together(finished: FinishedCampaign, column: str) -> None:
    wrong = [row for row in handshakes(finished) if not RELATIONS[column](row)]
    assert not wrong


def test_no_time_is_shorter_than_the_link_and_the_server_make_it(finished: FinishedCampaign) -> None:
    checked: Counter[str] = Counter()
    for row in handshakes(finished):
        for column, least in declared(finished, row)["handshake_at_least"].items():
            assert row[column] >= least - ROUNDING_US, (column, least, row)
            checked[column] += 1
    times = {*MILESTONES.values(), "settings_us", "rtt_first_us", "rtt_min_us"}
    assert checked.keys() == times and min(checked.values()) > 1_300 * REPETITIONS


def test_instant_acks_are_as_early_as_those_of_probes(finished: FinishedCampaign) -> None:
    off: dict[str, list[int]] = defaultdict(list)
    for row in handshakes(finished):
        delay = declared(finished, row)["ack_to_sh_us"]
        if row["outcome"] == "done" and row["first_answer"] == "iack" and delay and row["cdn"]:
            off[row["cdn"]].append(row["ack_to_sh_us"] - delay)
    assert off.keys() > {"Akamai", "Amazon", "Cloudflare", "Google"}
    for cdn, differences in off.items():
        assert is_declared(differences), (cdn, median(differences))
        for fault_us in (-FAULT_US, FAULT_US):
            assert not is_declared([difference_us + fault_us for difference_us in differences]), cdn


def is_declared(differences: list[int]) -> bool:
    """Return whether the median delay is nearer to the declared delay than to a delay with the fault."""
    return abs(median(differences)) < FAULT_US / 2


def test_all_outcomes_and_stages_occur(finished: FinishedCampaign) -> None:
    rows = handshakes(finished)
    known = {column.name: set(column.values or ()) for column in records.load("quic_handshake").columns}
    # These values do not occur on a healthy machine with the lab's servers. tests/handshake (test_sending,
    # test_rogue) provokes them.
    assert {row["outcome"] for row in rows} == known["outcome"] - {"send_failed", "closed"}
    assert {row["stage"] for row in rows} == known["stage"] - {"certificate", "handshake"} | {None}
    assert {row["first_answer"] for row in rows} == known["first_answer"] | {None}
    assert {row["status"] for row in rows} == {200, 301, 403, 404, 503, None}
    assert {row["verified"] for row in rows} == {row["name_matches"] for row in rows} == {True, False, None}
    assert {row["alert_by"] for row in rows} == known["alert_by"] | {None}


# ------------------------------------------------------------------------------------------- responses

LISTS = ("headers", "settings")
RESPONSE_RELATIONS: dict[str, Callable[[Row], bool]] = {
    "header_bytes": lambda row: (
        row["header_bytes"] == sum(len(n) + len(v) + 32 for n, v in json.loads(row["headers"])) + 42
    ),
    "sent_at": lambda row: row["sent_at"] is not None,
    "tool_version": RELATIONS["tool_version"],
    "source_file": lambda row: row["source_file"].endswith("/handshake/http3_response.parquet"),
}


def test_responses_are_as_declared(finished: FinishedCampaign) -> None:
    keys = ("vantage", "repetition", "domain", "ip")
    expected = {
        tuple(row[key] for key in keys): declared(finished, row)["http3_response"]
        for row in handshakes(finished)
        if declared(finished, row)["http3_response"] is not None
    }
    rows = {tuple(row[key] for key in keys): row for row in responses(finished)}
    assert rows.keys() == expected.keys() and len(rows) == len(responses(finished))
    for key, row in rows.items():
        truth = expected[key]
        assert {*truth, *RESPONSE_RELATIONS, *OF_THE_RUN} == columns("http3_response")
        assert {name: row[name] for name in truth if name not in LISTS} == {
            name: value for name, value in truth.items() if name not in LISTS
        }
        fields = Counter(map(tuple, json.loads(row["headers"])))
        assert fields >= Counter(map(tuple, truth["headers"])), row
        assert json.loads(row["settings"]).items() >= truth["settings"].items(), row
        assert [name for name, holds in RESPONSE_RELATIONS.items() if not holds(row)] == [], row


# ---------------------------------------------------------------------------------------- certificates

CERTIFICATE_RELATIONS: dict[str, Callable[[Row], bool]] = {
    "tool_version": RELATIONS["tool_version"],
    "source_file": lambda row: row["source_file"].endswith("/handshake/certificate.parquet"),
}


def test_certificates_are_those_of_the_servers(finished: FinishedCampaign) -> None:
    truth = {row["sha256"]: row for row in finished.site.lines("lab", "truth", "--certificates")}
    assert len(truth) > 10
    seen = Counter((row["vantage"], row["repetition"], row["sha256"]) for row in certificates(finished))
    places = [(v, n + 1) for v in VANTAGES for n in range(REPETITIONS)]
    assert seen == Counter((*place, sha256) for place in places for sha256 in truth)
    for row in certificates(finished):
        expected = truth[row["sha256"]]
        assert {*expected, *CERTIFICATE_RELATIONS, *OF_THE_RUN} == columns("certificate")
        assert {name: row[name] for name in expected} == expected
        assert all(holds(row) for holds in CERTIFICATE_RELATIONS.values()), row


def test_a_wrong_value_is_detected(finished: FinishedCampaign) -> None:
    """Each column of the truth has different values in different rows, so a wrong value is detected."""
    lines = [line["handshake"] for line in finished.truth.values()]
    unchecked = {
        name
        for name in lines[0]
        if name != "transport_parameters" and len({str(line[name]) for line in lines}) == 1
    }
    # The lab has one port and no alias of a CDN, and its servers do not compress, staple or offer these.
    # Its campaign offers one version and no ECH (tests/handshake/test_versions.py, test_ech.py).
    assert unchecked == {
        *("port", "cdn_by_cname", "certificate_compression", "min_ack_delay_us", "min_ack_delay_id"),
        *("max_datagram_frame_size", "multipath_id", "multipath_value", "version_change"),
        *("ech_offered", "ech_accepted", "ech_retry_config_ids", "ech_retry_public_names"),
    }
