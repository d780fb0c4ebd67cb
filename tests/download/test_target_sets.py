"""Downloads whose names were drawn by the survey of TCP options: a TCP and a QUIC target set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.run.run import Run
from firstflight.sampling import number
from schemas import records
from tests.download.runs import stage
from tests.download.world import DOMAIN, SERVER_V4, DownloadWorld
from tests.store.rows import tcp_option

SURVEYED = """
draw = "survey"
quic = 2
others = 1
per_cdn = 1
resolve_again = false
[tcp_options]
enabled = true
"""
SETS = {
    "tcp": {"warmup", "bl", "ws14", "all14"},
    "quic": {"warmup", "bl", "all14", "quiche"},
    "both": {"warmup", "bl", "ws14", "all14", "quiche"},
}
# By name: whether its server accepts ECN, and whether it announces HTTP/3.
NAMES = {"plain": (True, False), "both": (True, True), "more": (True, True), "no-ecn": (False, True)}


def prepared(run: Run) -> None:
    """Write the records of a crawl, a resolution and a survey."""
    key, rows = run.key("here", 1), []
    for name, (ecn, http3) in NAMES.items():
        domain = f"{name}.{DOMAIN}"
        of_name = {"domain": domain, "ip": SERVER_V4, "run": run.id, "vantage": "here"}
        rows.append(
            {
                "download_file": {
                    "domain": domain,
                    "url": f"https://{domain}/small",
                    "outcome": "found",
                    "alt_svc": 'h3=":443"' if http3 else None,
                },
                "dns_answer": {
                    "domain": domain,
                    "qtype": "A",
                    "status": "NOERROR",
                    "answer_rank": 0,
                    "address": SERVER_V4,
                },
                "tcp_option": tcp_option(**of_name, ecn=ecn, sack=True, window_scaling=True),
            }
        )
    layout = run.layout
    paths = (layout.crawl("download_file"), layout.dns_answer(key), layout.tcp_option(key))
    for path in paths:
        of_kind = [row[path.stem] for row in rows]
        schema = records.load(path.stem).arrow_schema() if path.stem == "tcp_option" else None
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(of_kind, schema=schema), path)


@pytest.mark.parametrize(
    ("sets", "per_cdn"), [(("bl", "ws14", "all14", "quiche"), 1), (("quiche",), 9)], ids=["all", "quic"]
)
def test_names_have_the_downloads_of_their_target_sets(
    world: DownloadWorld, run: Callable[..., Run], sets: tuple[str, ...], per_cdn: int
) -> None:
    """The address belongs to Cloudflare. With `per_cdn` 1, the TCP target set has one of the three names.

    Without TCP sets to compare, a name that is only in the TCP target set has no downloads.
    """
    made = run(SURVEYED.replace("per_cdn = 1", f"per_cdn = {per_cdn}"), files="", sets=sets)
    sets_of = {name: of_name & {"warmup", *sets} for name, of_name in SETS.items()}
    prepared(made)
    stage(world, made)
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for row in pq.read_table(made.layout.downloads(made.key("here", 1))).to_pylist():
        found.setdefault(row["domain"], {})[row["set"]] = row
    seed = int(made.manifest["seed"])
    wanted = {f"{name}.{DOMAIN}": "quic" for name in ("both", "more")}
    drawn = sorted((f"plain.{DOMAIN}", *wanted), key=lambda domain: number(seed, domain))[:per_cdn]
    wanted |= {name: "both" if name in wanted else "tcp" for name in drawn}
    if "bl" not in sets:
        wanted.pop(f"plain.{DOMAIN}")
    assert {name: {row["target_set"] for row in rows.values()} for name, rows in found.items()} == {
        name: {target_set} for name, target_set in wanted.items()
    }
    for name, target_set in wanted.items():
        assert set(found[name]) == sets_of[target_set]
        assert {row["outcome"] for row in found[name].values()} == {"done"}, found[name]
        capable = {row["quic_capable"] for row in found[name].values() if row["set"] != "warmup"}
        assert capable == {None if target_set == "tcp" else True}, (
            "HTTP/3 is not requested without a QUIC set"
        )
    report = made.report("download", made.key("here", 1))
    assert report is not None
    assert (report.facts["files_Cloudflare"], report.facts["files_without_options"]) == (3, 1)
    assert {name: report.facts.get(f"targets_{name}", 0) for name in ("tcp", "quic", "both")} == {
        name: list(wanted.values()).count(name) for name in ("tcp", "quic", "both")
    }
    assert report.rows_in == report.rows_out == sum(len(sets_of[name]) for name in wanted.values())
    assert not [line for line in report.warnings if "fewer than" in line]
