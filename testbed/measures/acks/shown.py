"""Summaries of experiments about acknowledgements: our values, published values and expectations."""

from __future__ import annotations

from collections.abc import Sequence

from reports.tables.columns import Column
from testbed.experiment.experiment import Experiment
from testbed.measures.acks.asymmetry import WITHIN, Asymmetric
from testbed.measures.acks.cells import Acked
from testbed.measures.acks.survey import Client, checks
from testbed.measures.page import Check, Page, number, page

_REORDERING = {"at_once": "D", "ignored": "NR", "next_three": "3A", None: ""}


def acked(experiment: Experiment, found: Sequence[Acked], checked: Sequence[Check]) -> Page:
    """Return the summary of cells."""
    here = [one for one in found if one.done]
    more = [one.more or "-" for one in here]
    columns = [
        Column("RTT\nms", [f"{one.rtt_ms:g}" for one in here]),
        Column("loss\n%", [f"{one.loss_percent:g}" for one in here]),
        *([Column("more\n", more, right=False)] if any(one.more for one in here) else []),
        Column("asked\nratio", [_count(one.ack_ratio) for one in here]),
        Column("\ndelay", [number(one.ack_delay_ms, 0) for one in here]),
        Column("reor-\ndering", [_REORDERING[one.ack_reordering] for one in here], right=False),
        Column("transfer\ns", [_seconds(one.transfer_ms) for one in here]),
        Column("publ.\ns", [_seconds(one.published_transfer_ms) for one in here]),
        Column("packets\n", [number(one.packets, 0) for one in here]),
        Column("ACKs\n", [number(one.acks, 0) for one in here]),
        Column("\nmodel", [number(one.model_acks, 0) for one in here]),
        Column("timer\n%", [number(one.timer_percent, 1) for one in here]),
        Column("publ.\n%", [number(one.published_timer_percent, 0) for one in here]),
        Column("bundled\n%", [number(one.bundled_percent, 1) for one in here]),
        Column("ACK\nbytes", [number(one.ack_bytes, 0) for one in here]),
        Column("client\n%", [number(one.client_percent, 2) for one in here]),
        Column("publ.\n%", [number(one.published_client_percent, 2) for one in here]),
        Column("trials\ndone", [f"{one.done}/{one.trials}" for one in here]),
    ]
    legend = (
        "Medians. Packets: ack-eliciting ones that came to the client. ACKs: its packets with an ACK\n"
        "frame; model: equation 3 of the paper. Timer: share of ACKs that waited their longest delay.\n"
        "Bundled: share of ACKs with other frames in their packet (published of Chromium: up to 20 %, of\n"
        "short connections up to 100 %). Client: its IP bytes for 100 of the server's. Reordering: D, an\n"
        "ACK at once; NR, none; 3A, one for each of the next three packets.\n"
    )
    missing = [one.cell for one in found if not one.done]
    return page(experiment, columns, legend, checked, missing, len(found))


def asymmetric(experiment: Experiment, found: Sequence[Asymmetric]) -> Page:
    """Return the summary of asymmetric paths."""
    here = [one for one in found if one.done]
    columns = [
        Column("path\n", [f"{one.asymmetry:g}:1" for one in here]),
        Column("queue\nback", [_count(one.up_queue_packets) for one in here]),
        Column("asked\nratio", [_count(one.ack_ratio) for one in here]),
        Column("transfer\ns", [_seconds(one.transfer_ms) for one in here]),
        Column("data\nbytes", [number(one.data_bytes, 0) for one in here]),
        Column("ACK\nbytes", [number(one.ack_bytes, 0) for one in here]),
        Column("limit\nMbit/s", [number(one.limit_mbit, 2) for one in here]),
        Column("expected\nMbit/s", [number(one.expected_mbit, 2) for one in here]),
        Column("found\nMbit/s", [number(one.mbit, 2) for one in here]),
        Column("way back\n%", [number(one.back_percent, 0) for one in here]),
        Column("\ndrops", [number(one.back_drops, 0) for one in here]),
        Column("trials\ndone", [f"{one.done}/{one.trials}" for one in here]),
    ]
    checks = [
        Check(
            f"{one.asymmetry:g}:1, ratio {_count(one.ack_ratio)}, queue of {_count(one.up_queue_packets)}",
            f"within {100 * WITHIN:g} % of what fills the path or its way back",
            f"{number(one.mbit, 2)} for {number(one.expected_mbit, 2)} Mbit/s",
            one.verdict == "met",
        )
        for one in here
        if one.verdict is not None
    ]
    legend = (
        "Limit: rate towards the server x ratio x bytes of data / bytes of an ACK, as predicted.\n"
        "Expected: the limit, or the path's rate if that is less. Found: in a transfer's second half.\n"
        "Bytes are of Ethernet frames; medians.\n"
    )
    missing = [one.cell for one in found if not one.done]
    return page(experiment, columns, legend, checks, missing, len(found))


def surveyed(experiment: Experiment, found: Sequence[Client]) -> Page:
    """Return the summary of clients."""
    here = [one for one in found if one.done]
    columns = [
        Column("client\n", [one.client for one in here], right=False),
        Column("version\n", [one.version or "-" for one in here], right=False),
        Column("packets\nper ACK", [number(one.eliciting_per_ack, 2) for one in here]),
        Column("first\n100", [number(one.first100, 2) for one in here]),
        Column("after\n100", [number(one.after100, 2) for one in here]),
        Column("published\nratio", [one.published_ratio or "-" for one in here], right=False),
        Column("ACK\nbytes", [number(one.ack_bytes, 0) for one in here]),
        Column("publ.\nbytes", [_count(one.published_ack_bytes) for one in here]),
        Column("bundled\n%", [number(one.bundled_percent, 1) for one in here]),
        Column("mean\nbytes", [number(one.packet_bytes, 0) for one in here]),
        Column("publ.\n", [_range(one.published_packet_bytes, 0) for one in here]),
        Column("packets\neach", [number(one.packets_each, 2) for one in here]),
        Column("publ.\n", [_range(one.published_packets_each, 2) for one in here]),
        Column("takes ACK_\nFREQUENCY", [_yes(one.takes_requests) for one in here], right=False),
        Column("publ.\nparses", [_yes(one.published_parses) for one in here], right=False),
        Column("asked\nratio", [_count(one.asked_ratio) for one in here]),
        Column("\nfound", [number(one.asked_eliciting_per_ack, 2) for one in here]),
        Column("\nfollows", [_yes(one.follows) for one in here], right=False),
    ]
    legend = (
        "Medians. Packets per ACK: ack-eliciting ones that it acknowledges for the first time. Takes\n"
        "ACK_FREQUENCY: its transport parameters have min_ack_delay. Found: packets per ACK after 100.\n"
        "Mean bytes: of all packets of the client, and packets that came for each of them; published from\n"
        "counters of transfers of 100 MiB that lost packets (QUIC Steps), these have 500 kB.\n"
    )
    missing = [one.client for one in found if not one.done]
    shown = {one.client for one in here}
    further = [
        f"Published of {one.client}, of which no trial was done: {_range(one.packet_bytes, 0)} bytes, "
        f"{_range(one.packets_each, 2)} packets for each."
        for one in experiment.counted
        if one.client not in shown
    ]
    return page(experiment, columns, legend, checks(here), missing, len(found), further=further)


def _range(bounds: tuple[float, float] | None, digits: int) -> str:
    if bounds is None:
        return "-"
    low, high = (number(one, digits) for one in bounds)
    return low if low == high else f"{low}-{high}"


def _seconds(value_ms: float | None) -> str:
    return "-" if value_ms is None else f"{value_ms / 1000:.2f}"


def _count(value: int | None) -> str:
    return "-" if value is None else str(value)


def _yes(value: bool | None) -> str:
    return "-" if value is None else ("no", "yes")[value]
