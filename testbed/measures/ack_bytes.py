"""The composition of a client's bytes, per 100 bytes of the server (paper 003, Figure 3, section 5.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from reports import published_values
from reports.numbers.compared import ComparisonPanel, ComparisonSeries, series
from reports.tables.columns import PrintedColumn
from testbed.experiment.cell import Cell
from testbed.experiment.experiment import Experiment
from testbed.experiment.published import OfPaper
from testbed.measures import Measure, Results
from testbed.summary import Check, SummaryPage, number, page
from testbed.trials.cell_rows import by_cell, column, done, in_percent, median_of, percent
from testbed.trials.trial_row import TrialRow

KINDS = ("udp_ip", "headers", "tags", "ack", "crypto", "stream", "padding", "other", "outside")
"""Parts of a client's bytes: IPv4 and UDP headers, QUIC headers, tags, frames by type, and bytes outside of
decrypted packets, such as those after a datagram's last packet."""
_UDP_IP_BYTES = 20 + 8
_TAGS_PERCENT, _TAGS_WITHIN = 90.0, 5.0
"""From the paper: tags are 90 % of the bytes that encryption costs, which are tags and CRYPTO frames."""
_TCP_PERCENT = 1.33
"""From the paper: ACKs of TCP for every second packet, in percent of the bytes that they acknowledge."""


class Composition(OfPaper):
    """Published values about a client's ACKs."""

    client: str = Field(description="The client.")
    body_bytes: int = Field(description="Length of the response's body.")
    responses: int = Field(default=1, description="Number of responses.")
    ack_low_percent: float | None = Field(
        default=None, description="Lower bound of its ACKs in percent of the server's bytes."
    )
    ack_high_percent: float | None = Field(default=None, description="Upper bound of the same.")
    bundled_high_percent: float | None = Field(
        default=None, description="Upper bound of the share of ACKs in packets with other frames."
    )
    connections: float | None = Field(default=None, description="Mean number of connections.")


class AckBytes(Experiment):
    """The composition of a client's bytes, per 100 bytes of the server (paper 003, Figure 3)."""

    composition: tuple[Composition, ...] = Field(default=(), description="Published values.")


@dataclass(frozen=True)
class Composed:
    """A cell. Numbers are medians over completed trials; null without any.

    Only `connections` includes trials with several connections.
    Each of KINDS, `client_percent` (their sum) and `ack_only_percent` (datagrams with only ACKs, headers
    included) is in IP bytes per 100 bytes of the server. `bundled_percent`: the share of packets with an ACK
    that also carry other frames. `tags_percent`: tags in percent of tags and CRYPTO frames.
    """

    cell: str
    client: str
    client_version: str | None
    server: str
    body_bytes: int
    responses: int
    think_ms: float
    trials: int
    done: int
    connections: float | None
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
        published = None if self.published is None else self.published.model_dump(exclude_none=True)
        return {**asdict(self), "published": published}


def cells(experiment: AckBytes, rows: Sequence[TrialRow]) -> list[Composed]:
    """Return a line for each cell of `rows`, in the experiment's order. InputError as in `by_cell`."""
    return [_composed(experiment, cell, cell_rows) for cell, cell_rows in by_cell(experiment, rows)]


def parts(row: TrialRow) -> dict[str, int | None]:
    """Return the IP bytes from a trial's client by KINDS; null without keys. They add up to the total."""
    count = row["datagrams_client"]
    known = {
        "udp_ip": None if count is None else count * _UDP_IP_BYTES,
        **{kind: row[f"bytes_{kind}"] for kind in KINDS[1:-1]},
    }
    values = [row["ip_bytes_client"], *known.values()]
    return {**known, "outside": None if None in values else values[0] - sum(values[1:])}


def summary(experiment: AckBytes, lines: Sequence[Composed]) -> SummaryPage:
    """Return the summary of cells."""
    completed = [line for line in lines if line.done]
    titles = (  # In the order of KINDS.
        *("IP,\nUDP", "QUIC\nheaders", "tags\n", "ACK\nframes"),
        *("CRYPTO\n", "STREAM\n", "PADDING\n", "other\n", "out-\nside"),
    )
    columns = [
        PrintedColumn("client\n", [line.client for line in completed], right=False),
        PrintedColumn("body\nkB", [f"{line.body_bytes / 1000:g}" for line in completed]),
        *(_several(completed) if any(line.responses > 1 for line in completed) else ()),
        PrintedColumn("client\n%", [number(line.client_percent, 2) for line in completed]),
        *(
            PrintedColumn(title, [number(getattr(line, kind), 2) for line in completed])
            for title, kind in zip(titles, KINDS, strict=True)
        ),
        PrintedColumn("ACKs\n%", [number(line.ack_only_percent, 2) for line in completed]),
        PrintedColumn(
            "publ.\n%",
            [_published(line, "ack_low_percent", "ack_high_percent") for line in completed],
            right=False,
        ),
        PrintedColumn("bundled\n%", [number(line.bundled_percent, 1) for line in completed]),
        PrintedColumn(
            "publ.\n%", [_published(line, None, "bundled_high_percent") for line in completed], right=False
        ),
        PrintedColumn("trials\ndone", [f"{line.done}/{line.trials}" for line in completed]),
    ]
    legend = (
        "Medians of the client's IP bytes per 100 bytes of the server, by kind. Outside: in no packet, such\n"
        "as bytes that fill a datagram. ACKs: datagrams with only ACKs, headers included. Bundled: ACKs\n"
        "with other frames in their packet.\n"
    )
    if published_values.are_shown():
        legend += f"Published of TCP, an ACK for two packets: {_TCP_PERCENT} %.\n"
    missing = [line.cell for line in lines if not line.done]
    return page(experiment, columns, legend, list(_checks(completed)), missing, len(lines))


def _checks(lines: Sequence[Composed]) -> Iterator[Check]:
    for line in lines:
        about = f"{line.client}, {_body(line)}"
        published = line.published
        if published is None:
            continue
        if published.ack_high_percent is not None and line.ack_only_percent is not None:
            low, high = published.ack_low_percent or 0, published.ack_high_percent
            yield Check(
                about,
                f"its ACKs are {low:g} to {high:g} % of the server's bytes",
                f"{line.ack_only_percent:.2f} %",
                low <= line.ack_only_percent <= high,
            )
            if line.tags_percent is not None:
                yield Check(
                    about,
                    f"tags are {_TAGS_PERCENT:g} % of tags and CRYPTO frames, within {_TAGS_WITHIN:g} points",
                    f"{line.tags_percent:.1f} %",
                    abs(line.tags_percent - _TAGS_PERCENT) <= _TAGS_WITHIN,
                )
        # Short connections have up to 100 %, so there is no expectation.
        most = 100 if published.bundled_high_percent is None else published.bundled_high_percent
        if most < 100 and line.bundled_percent is not None:
            yield Check(
                about,
                f"up to {most:g} % of its ACKs have other frames in their packet",
                f"{line.bundled_percent:.1f} %",
                line.bundled_percent <= most,
            )


def _several(lines: Sequence[Composed]) -> Iterator[PrintedColumn]:
    """Return the columns about several responses and their connections, with the published numbers."""
    published = [None if line.published is None else line.published.connections for line in lines]
    yield PrintedColumn("times\n", [str(line.responses) for line in lines])
    yield PrintedColumn("pause\ns", [f"{line.think_ms / 1000:g}" for line in lines])
    yield PrintedColumn("conn-\nections", [number(line.connections, 0) for line in lines])
    yield PrintedColumn("publ.\n", [number(found, 0) for found in published])


def _body(line: Composed) -> str:
    """Return the length of the body, with the number of responses and their distance if there are several."""
    length = f"{line.body_bytes / 1000:g} kB"
    if line.responses == 1:
        return f"body of {length}"
    return f"{line.responses} bodies of {length}, with pauses of {line.think_ms / 1000:g} s"


def _published(line: Composed, low: str | None, high: str) -> str:
    theirs = line.published
    if theirs is None or getattr(theirs, high) is None:
        return "-"
    start = None if low is None else getattr(theirs, low)
    return f"<= {getattr(theirs, high):g}" if start is None else f"{start:g}-{getattr(theirs, high):g}"


def _composed(experiment: AckBytes, cell: Cell, rows: Sequence[TrialRow]) -> Composed:
    ended = done(rows)

    def share(kind: str) -> float | None:
        return median_of(ended, lambda row: in_percent(parts(row)[kind], row["ip_bytes_server"]))

    return Composed(
        cell=cell.name,
        client=cell.client,
        client_version=ended[0]["client_version"] if ended else None,
        server=cell.server,
        body_bytes=cell.body_bytes,
        responses=cell.responses,
        think_ms=cell.think_ms,
        trials=len(rows),
        done=len(ended),
        connections=median_of(ended, column("connections")),
        client_percent=median_of(ended, percent("ip_bytes_client", "ip_bytes_server")),
        **{kind: share(kind) for kind in KINDS},
        ack_only_percent=median_of(ended, percent("ack_only_ip_bytes", "ip_bytes_server")),
        tags_percent=median_of(ended, _tags_percent),
        bundled_percent=median_of(ended, percent("bundled_packets", "ack_packets")),
        published=next(
            (composition for composition in experiment.composition if _is_of(composition, cell)), None
        ),
    )


def _is_of(published: Composition, cell: Cell) -> bool:
    theirs = (published.client, published.body_bytes, published.responses)
    return theirs == (cell.client, cell.body_bytes, cell.responses)


def _tags_percent(row: TrialRow) -> float | None:
    tags, crypto = row["bytes_tags"], row["bytes_crypto"]
    return None if None in (tags, crypto) else in_percent(tags, tags + crypto)


def panels(lines: Sequence[Composed]) -> list[ComparisonPanel]:
    """Return panels for each body length: bytes by kind, and bundled ACKs."""
    figure = []
    for size in dict.fromkeys(map(_body, lines)):
        group = [line for line in lines if _body(line) == size]
        title = size[0].upper() + size[1:]
        dots: list[ComparisonSeries] = []
        dots += series("headers", [(line.client, line.all_headers) for line in group])
        # The other kinds have no plot style; the table lists them.
        for kind in ("tags", "ack", "crypto", "stream", "padding"):
            dots += series(kind, [(line.client, getattr(line, kind)) for line in group])
        figure.append(ComparisonPanel(title, "Bytes for 100 of the server's", tuple(dots)))
        bundled = series("bundled", [(line.client, line.bundled_percent) for line in group])
        published_points = [
            (line.client, line.published.bundled_high_percent if line.published else None) for line in group
        ]
        bundled += series("bundled", published_points, published=True)
        figure.append(ComparisonPanel(title, "ACKs with other frames [%]", bundled))
    return figure


def results(experiment: AckBytes, _folder: Path, rows: Sequence[TrialRow]) -> Results:
    """Return a line for each cell."""
    lines = cells(experiment, rows)
    return Results(lines, lambda: summary(experiment, lines), lambda: panels(lines))


MEASURE = Measure(AckBytes, results)
