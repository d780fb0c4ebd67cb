"""Prober, dissector and tshark read the same packets and must agree on every probe."""

from __future__ import annotations

import json
from statistics import median
from typing import Any

import pytest

from tests.end_to_end import oracle
from tests.end_to_end.conftest import REPETITIONS, FinishedCampaign
from tests.end_to_end.site import VANTAGES
from tests.end_to_end.stamps import NOTHING_SENT, key_of, possible_send_ns, shifted, wrong_stamps

Row = dict[str, Any]
# The tests must detect a timestamp error of this size. Send timestamps taken in user space have a larger
# error.
FAULT_US = 100


def sent(finished: FinishedCampaign) -> list[Row]:
    """Return the rows of probes that were sent."""
    return [row for row in finished.rows if row["outcome"] not in NOTHING_SENT]


def dissected(finished: FinishedCampaign) -> dict[oracle.Key, Row]:
    """Return the dissector's rows from the store, by key."""
    rows = finished.site.sql(
        "SELECT client_ip, client_port, server_ip, client_scid, first_answer, ack_us, sh_us, ack_to_sh_us, "
        f"ack_pn, sh_pn, ack_delay_raw, sh_to_handshake_us FROM quic_connection WHERE run = '{finished.run}'"
    )
    return {(r["client_ip"], r["client_port"], r["server_ip"], r["client_scid"]): r for r in rows}


def test_outcomes_agree_in_all(finished: FinishedCampaign) -> None:
    by_dissector = dissected(finished)
    wrong = []
    for row in sent(finished):
        key = key_of(row)
        words = row["outcome"], by_dissector[key]["first_answer"], finished.at_vantage[key].outcome
        if len(set(words)) > 1:
            wrong.append((row["domain"], row["ip"], row["vantage"], words))
    assert not wrong, sorted({(w[0], *w[3]) for w in wrong})


def test_dissector_and_tshark_read_the_same_times(finished: FinishedCampaign) -> None:
    """Both read the timestamps of the same capture, so no difference is allowed."""
    by_dissector = dissected(finished)
    for row in sent(finished):
        theirs, ours = by_dissector[key_of(row)], finished.at_vantage[key_of(row)]
        assert (theirs["ack_us"], theirs["sh_us"]) == (ours.ack_us, ours.sh_us), row


def test_every_time_is_the_kernels(finished: FinishedCampaign) -> None:
    """Send timestamps are between the capture's and the link's; receive timestamps equal the capture's."""
    log = finished.link_log
    widths = []
    for row in sent(finished):
        key = key_of(row)
        reading = finished.at_vantage[key]
        possible = possible_send_ns(reading, key, log)
        assert wrong_stamps(row, reading, possible) == [], (row, reading, possible)
        widths.append(possible[1] - possible[0])
    assert len(widths) > 1_600 * REPETITIONS
    print(f"send stamps bounded to {median(widths) / 1000:.1f} us (median), {max(widths) / 1000:.1f} at most")
    assert median(widths) < FAULT_US * 1000 / 2, "the bounds are too wide to detect a fault of this size"


@pytest.mark.parametrize("fault_us", [FAULT_US, -FAULT_US])
@pytest.mark.parametrize("column", ["sent_at", "ack_us", "sh_us", "ack_to_sh_us"])
def test_a_wrong_timestamp_is_detected(finished: FinishedCampaign, column: str, fault_us: int) -> None:
    """The same check must detect nearly every row with one shifted time."""
    log = finished.link_log
    rows = [row for row in sent(finished) if row["outcome"] == "iack"]
    missed = []
    for row in rows:
        key = key_of(row)
        reading = finished.at_vantage[key]
        moved = shifted(row, column, fault_us)
        if wrong_stamps(moved, reading, possible_send_ns(reading, key, log)) != [column]:
            missed.append(row)
    assert len(rows) > 1500 and len(missed) < len(rows) / 2


def test_captures_lost_nothing(finished: FinishedCampaign) -> None:
    for vantage in VANTAGES:
        for repetition in range(1, REPETITIONS + 1):
            folder = finished.site.folder / "runs" / finished.run / vantage / str(repetition) / "capture"
            manifest = json.loads((folder / "capture.json").read_text())
            assert manifest["captures"]
            for capture in manifest["captures"]:
                assert capture["captured"] == capture["received_by_filter"] > 0
                assert capture["dropped_by_kernel"] == 0, folder
