"""A new stage and a new query, as the recipes of docs/extending.md add them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Addition:
    """What a recipe adds.

    `files`: path -> text of new files. `inserted`: path -> (a line of the file, text before this line).
    `generated`: path -> module that prints the page.
    """

    files: dict[str, str]
    inserted: dict[str, tuple[str, str]] = field(default_factory=dict)
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
            "| `download` | ",
            "| `port_open` | each vantage, repetition | dns_answer | port_open.parquet "
            "| `scanner.port_open.stage.stage(run, key)` |\n",
        ),
        "orchestration/stages.py": (
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
    },
    generated={"docs/schema.md": "schemas.document"},
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
