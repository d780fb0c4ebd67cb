"""The composition of a client's bytes, per 100 bytes of the server (paper 003, Figure 3, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from reports.tables.columns import Column
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import Composition
from testbed.measures.page import Check, Page, number, page
from testbed.trials.cell_rows import by_cell, done, in_percent, median_of, percent
from testbed.trials.trial_row import Row

KINDS = ("udp_ip", "headers", "tags", "ack", "crypto", "stream", "padding", "other", "outside")
"""Parts of a client's bytes: headers of IPv4 and UDP, QUIC's headers, tags, frames by type, and what is in no
packet that was opened, as bytes that fill a datagram behind its last packet."""
_UDP_IP_BYTES = 20 + 8
_TAGS_PERCENT, _TAGS_WITHIN = 90.0, 5.0
"""The paper: tags contribute 90 % of what encryption costs, which is tags and CRYPTO frames."""
_TCP_PERCENT = 1.33
"""The paper: ACKs of TCP for every second packet, in percent of the bytes that they acknowledge."""


@dataclass(frozen=True)
class Composed:
    """A cell. Numbers are medians over completed trials; null without any.

    Each of KINDS, `client_percent` (their sum) and `ack_only_percent` (datagrams with only ACKs, headers
    included) is in IP bytes per 100 bytes of the server. `bundled_percent`: the share of packets with an ACK
    that also carry other frames. `tags_percent`: tags in percent of tags and CRYPTO frames.
    """

    cell: str
    client: str
    client_version: str | None
    server: str
    body_bytes: int
    trials: int
    done: int
    client_percent: float | None
    udp_ip: float | None
    headers: float | None
    tags: float | None
    ack: float | None
    crypto: float | None
    stream: float | None
    padding: float | None
    other: float | None
    outside: float | None
    ack_only_percent: float | None
    tags_percent: float | None
    bundled_percent: float | None
    published: Composition | None

    @property
    def all_headers(self) -> float | None:
        """Return the headers of IPv4, UDP and QUIC."""
        return None if None in (self.udp_ip, self.headers) else (self.udp_ip or 0) + (self.headers or 0)

    def as_dict(self) -> dict[str, Any]:
        """Return the columns as a dictionary."""
        theirs = None if self.published is None else self.published.model_dump(exclude_none=True)
        return {**asdict(self), "published": theirs}


def cells(experiment: Experiment, rows: Sequence[Row]) -> list[Composed]:
    """Return a line for each cell that `rows` are of, in the experiment's order. InputError as `by_cell`."""
    return [_composed(experiment, cell, own) for cell, own in by_cell(experiment, rows)]


def parts(row: Row) -> dict[str, int | None]:
    """Return the IP bytes of a trial's client by KINDS; null without keys. They add up to the total."""
    count = row["datagrams_client"]
    known = {
        "udp_ip": None if count is None else count * _UDP_IP_BYTES,
        **{kind: row[f"bytes_{kind}"] for kind in KINDS[1:-1]},
    }
    whole = [row["ip_bytes_client"], *known.values()]
    return {**known, "outside": None if None in whole else whole[0] - sum(whole[1:])}


def summary(experiment: Experiment, found: Sequence[Composed]) -> Page:
    """Return the summary of cells."""
    here = [one for one in found if one.done]
    titles = (  # As KINDS.
        *("IP,\nUDP", "QUIC\nheaders", "tags\n", "ACK\nframes"),
        *("CRYPTO\n", "STREAM\n", "PADDING\n", "other\n", "out-\nside"),
    )
    columns = [
        Column("client\n", [one.client for one in here], right=False),
        Column("body\nkB", [f"{one.body_bytes / 1000:g}" for one in here]),
        Column("client\n%", [number(one.client_percent, 2) for one in here]),
        *(
            Column(title, [number(getattr(one, kind), 2) for one in here])
            for title, kind in zip(titles, KINDS, strict=True)
        ),
        Column("ACKs\n%", [number(one.ack_only_percent, 2) for one in here]),
        Column(
            "publ.\n%", [_published(one, "ack_low_percent", "ack_high_percent") for one in here], right=False
        ),
        Column("bundled\n%", [number(one.bundled_percent, 1) for one in here]),
        Column("publ.\n%", [_published(one, None, "bundled_high_percent") for one in here], right=False),
        Column("trials\ndone", [f"{one.done}/{one.trials}" for one in here]),
    ]
    legend = (
        "Medians of the client's IP bytes for 100 of the server's, by what they are. Outside: in no packet,\n"
        "as what fills a datagram. ACKs: datagrams with nothing but ACKs, headers included. Bundled: ACKs\n"
        "with other frames in their packet.\n"
        f"Published of TCP, an ACK for two packets: {_TCP_PERCENT} %.\n"
    )
    missing = [one.cell for one in found if not one.done]
    return page(experiment, columns, legend, list(_checks(here)), missing, len(found))


def _checks(found: Sequence[Composed]) -> Iterator[Check]:
    for one in found:
        about = f"{one.client}, body of {one.body_bytes / 1000:g} kB"
        theirs = one.published
        if theirs is None:
            continue
        if theirs.ack_high_percent is not None and one.ack_only_percent is not None:
            low, high = theirs.ack_low_percent or 0, theirs.ack_high_percent
            yield Check(
                about,
                f"its ACKs are {low:g} to {high:g} % of the server's bytes",
                f"{one.ack_only_percent:.2f} %",
                low <= one.ack_only_percent <= high,
            )
            if one.tags_percent is not None:
                yield Check(
                    about,
                    f"tags are {_TAGS_PERCENT:g} % of tags and CRYPTO frames, within {_TAGS_WITHIN:g} points",
                    f"{one.tags_percent:.1f} %",
                    abs(one.tags_percent - _TAGS_PERCENT) <= _TAGS_WITHIN,
                )
        # Short connections have up to 100 %, so there is no expectation.
        most = 100 if theirs.bundled_high_percent is None else theirs.bundled_high_percent
        if most < 100 and one.bundled_percent is not None:
            yield Check(
                about,
                f"up to {most:g} % of its ACKs have other frames in their packet",
                f"{one.bundled_percent:.1f} %",
                one.bundled_percent <= most,
            )


def _published(one: Composed, low: str | None, high: str) -> str:
    theirs = one.published
    if theirs is None or getattr(theirs, high) is None:
        return "-"
    start = None if low is None else getattr(theirs, low)
    return f"<= {getattr(theirs, high):g}" if start is None else f"{start:g}-{getattr(theirs, high):g}"


def _composed(experiment: Experiment, cell: Cell, rows: Sequence[Row]) -> Composed:
    ended = done(rows)

    def share(kind: str) -> float | None:
        return median_of(ended, lambda row: in_percent(parts(row)[kind], row["ip_bytes_server"]))

    return Composed(
        cell=cell.name,
        client=cell.client,
        client_version=ended[0]["client_version"] if ended else None,
        server=cell.server,
        body_bytes=cell.body_bytes,
        trials=len(rows),
        done=len(ended),
        client_percent=median_of(ended, percent("ip_bytes_client", "ip_bytes_server")),
        **{kind: share(kind) for kind in KINDS},
        ack_only_percent=median_of(ended, percent("ack_only_ip_bytes", "ip_bytes_server")),
        tags_percent=median_of(ended, _tags_percent),
        bundled_percent=median_of(ended, percent("bundled_packets", "ack_packets")),
        published=next((one for one in experiment.composition if _is_of(one, cell)), None),
    )


def _is_of(theirs: Composition, cell: Cell) -> bool:
    return (theirs.client, theirs.body_bytes) == (cell.client, cell.body_bytes)


def _tags_percent(row: Row) -> float | None:
    tags, crypto = row["bytes_tags"], row["bytes_crypto"]
    return None if None in (tags, crypto) else in_percent(tags, tags + crypto)
