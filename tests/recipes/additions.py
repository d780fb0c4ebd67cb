"""A new stage, figure and query, as the recipes of docs/extending.md add them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Addition:
    """What a recipe adds.

    `files`: path -> text of new files. `inserted`: path -> (text of the file, more text before it), for each
    change to the file. `generated`: path -> module that prints the page.
    """

    files: dict[str, str]
    inserted: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    generated: dict[str, str] = field(default_factory=dict)

    @property
    def paths(self) -> list[str]:
        """The paths of all files that the addition changes, sorted."""
        return sorted([*self.files, *self.inserted, *self.generated])


STAGE = Addition(
    files={
        "scanner/port_open/__init__.py": '"""Whether servers accept connections."""\n',
        "scanner/port_open/stage.py": '''\
"""The port_open stage: connect to the addresses of the names by TCP, write who accepts."""

from __future__ import annotations

import socket
import time

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.egress.permitted import Permitted
from firstflight.layout import StageKey
from firstflight.run.run import Run
from firstflight.system import files
from schemas import records

KIND = "port_open"
TIMEOUT_S = 1.0


def stage(run: Run, key: StageKey) -> None:
    """Connect to the addresses that the resolve stage found for `key`; write port_open.parquet."""
    probe, kind = run.settings.probe, records.load(KIND)
    with run.stage("port_open", key) as report:
        permitted = Permitted(probe.blocklist, probe.optout, probe.allow_net)
        found = pq.read_table(run.layout.dns_answer(key), columns=["domain", "address"]).to_pylist()
        targets = [(row["domain"], row["address"]) for row in found if row["address"]]
        rows = [
            {
                **key.columns(),
                "domain": domain,
                "ip": ip,
                "sent_at": time.time_ns(),
                "is_open": None if permitted.why_not(ip, domain) else accepts(ip, probe.port),
                "tool_version": report.tool_version,
            }
            for domain, ip in targets
        ]
        out = run.layout.record_file("port_open", KIND, key)
        with files.replacing(out) as part:
            pq.write_table(pa.Table.from_pylist(rows, schema=kind.arrow_schema()), part)
        report.rows_in, report.rows_out = len(targets), len(rows)
        run.add_output(report, out)


def accepts(ip: str, port: int) -> bool:
    """Return whether a server at this address accepts a connection."""
    try:
        socket.create_connection((ip, port), TIMEOUT_S).close()
    except OSError:
        return False
    return True
''',
        "scanner/port_open/outline.py": '''\
"""The port_open stage's part of the dry run."""

from __future__ import annotations

from firstflight.run.outline import Known, Outline, Traffic
from firstflight.settings import Settings, Vantage


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the traffic of one TCP connection for each name and address family."""
    line = f"open ports: a TCP connection to port {settings.probe.port} of each address"
    if known.names is None:
        return Outline((line,), sections=("probe",))
    count = known.names * len(settings.probe.families)
    return Outline((line,), traffic=Traffic(4, 4 * 80, 4 * 80).times(count), seconds=float(count))
''',
        "schemas/records/port_open.yaml": """\
kind: port_open
meaning: Whether a server accepts TCP connections. One row per vantage point, name, address and repetition.
unit: [run, vantage, repetition]
time: sent_at
columns:
  - run from stage
  - vantage from stage
  - repetition from stage
  - {name: domain, type: string, from: stage, meaning: Name of the target.}
  - {name: ip, type: string, from: stage, meaning: Address of the target.}
  - {name: sent_at, type: int64, unit: ns, from: stage, meaning: Start of the connection (UTC).}
  - {name: is_open, type: bool, nullable: true, from: stage, meaning: Whether it accepted; null if not sent.}
  - tool_version from stage
  - source_file from loader
""",
        "schemas/migrations/0009_port_open.sql": """\
-- Whether servers accept TCP connections.
CREATE TABLE IF NOT EXISTS ${database}.port_open ${on_cluster}
(
    run LowCardinality(String),
    vantage LowCardinality(String),
    repetition UInt16,
    domain String,
    ip String,
    sent_at DateTime64(9, 'UTC'),
    is_open Nullable(Bool),
    tool_version LowCardinality(String),
    source_file LowCardinality(String)
)
ENGINE = ${replicated}MergeTree
PARTITION BY toYYYYMM(sent_at)
ORDER BY (domain, vantage, run, repetition)
SETTINGS non_replicated_deduplication_window = 1000;
""",
        "tests/port_open/__init__.py": "",
        "tests/port_open/test_stage.py": '''\
"""Whether a server accepts connections."""

from __future__ import annotations

import socket

from scanner.port_open.stage import accepts


def test_a_listening_socket_accepts_until_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert accepts("127.0.0.1", port)
    assert not accepts("127.0.0.1", port)
''',
    },
    inserted={
        "docs/architecture.md": (
            (
                "| `download` | ",
                "| `port_open` | each vantage, repetition | dns_answer | port_open.parquet "
                "| `scanner.port_open.stage.stage(run, key)` |\n",
            ),
        ),
        "orchestration/stages.py": (
            (
                '    Stage(\n        "download",\n',
                """\
    Stage(
        "port_open",
        "scanner.port_open.stage",
        Scope.KEY,
        SCAN,
        sends=True,
        measures="open ports",
        kinds=("port_open",),
        outline="scanner.port_open.outline:outline",
    ),
""",
            ),
        ),
    },
    generated={"docs/schema.md": "schemas.document"},
)

FIGURE = Addition(
    files={
        "reports/sql/outcome_bars.sql": """\
-- The probes of a run by outcome.
SELECT
    outcome,
    count() AS probes
FROM ${database}.quic_probe
WHERE run = {run:String}
GROUP BY outcome
ORDER BY outcome
""",
        "reports/figures/outcome_bars.py": '''\
"""The number of probes with each outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from matplotlib.figure import Figure

from reports import wording
from reports.figures import style
from reports.figures.plan import FigurePlan, PartWithFigures
from reports.question import QueryAnswer, ask
from store import Store


@dataclass(frozen=True)
class OutcomeBars(PartWithFigures):
    """The query for the outcomes with its answer."""

    answer: QueryAnswer

    def figures(self, looks: Mapping[str, style.Look]) -> Iterator[FigurePlan]:  # noqa: ARG002
        """Yield the figure, unless the run has no probes."""
        if rows := self.answer.rows:
            yield FigurePlan(
                "outcome-bars",
                partial(draw, rows),
                rows,
                "Probes by outcome",
                "",
                describe(rows),
                {"outcomes": self.answer},
            )


def collect(store: Store, run: str) -> OutcomeBars:
    """Collect the outcomes of a run's probes."""
    return OutcomeBars(ask(store, "outcome_bars", run=run))


def draw(rows: Sequence[Mapping[str, Any]], size: style.Size) -> Figure:
    """Draw a bar per outcome."""
    with style.drawing():
        figure = style.canvas(size, 60 + 25 * len(rows))
        axes = figure.subplots()
        axes.barh([row["outcome"] for row in rows], [row["probes"] for row in rows], color=style.INK)
        axes.set_xlabel("Probes")
        return figure


def describe(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the text alternative: the number of probes with each outcome."""
    return wording.plain_long("; ".join(f"{row['outcome']}: {row['probes']}" for row in rows))
''',
        "reports/page/templates/outcome_bars.html": """\
{% if "outcome-bars" in figures %}
<h2 id="outcomes-drawn">Outcomes</h2>
<figure id="outcome-bars">
<figcaption><span class="name">Probes by outcome.</span> All vantage points and days.</figcaption>
{{ parts.drawing(figures["outcome-bars"]) }}
</figure>
{{ parts.sources(figures["outcome-bars"]) }}
{% endif %}
""",
        "tests/report/test_outcome_bars.py": '''\
"""The figure of outcomes."""

from __future__ import annotations

from reports.figures import outcome_bars, style

ROWS = [{"outcome": "iack", "probes": 3}, {"outcome": "timeout", "probes": 1}]


def test_a_bar_per_outcome() -> None:
    (axes,) = outcome_bars.draw(ROWS, style.WIDE).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["iack", "timeout"]
    assert outcome_bars.describe(ROWS) == "iack: 3; timeout: 1"
''',
    },
    inserted={
        "reports/page/content.py": (
            (", pto\n", ", outcome_bars"),
            ("    published: Mapping[", "    outcome_bars: outcome_bars.OutcomeBars\n"),
            ("        published=", "        outcome_bars=outcome_bars.collect(store, run),\n"),
        ),
        "reports/page/templates/page.html": (
            ('{% include "run.html" %}', '{% include "outcome_bars.html" %}\n'),
        ),
    },
)

QUERY = Addition(
    files={
        "schemas/queries/names_by_outcome.sql": """\
SELECT
    outcome,
    uniqExact(domain) AS names
FROM ${database}.quic_probe
WHERE ${of_run_with quic_probe}
GROUP BY outcome
ORDER BY outcome
""",
        "schemas/queries/names_by_outcome.yaml": """\
group: Instant ACKs
answers: How many names have probes with each outcome?
parameters: [run]
columns:
  outcome: Outcome of a probe.
  names: Number of names with such a probe.
""",
    },
    generated={"docs/queries.md": "reports.query"},
)
