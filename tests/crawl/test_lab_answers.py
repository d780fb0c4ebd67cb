"""The resolve stage against the lab's DNS server finds each name's declared addresses, chain and status."""

from __future__ import annotations

import sys

import pyarrow.parquet as pq

from tests.lab_services.conftest import RunningWorld

from .conftest import MakeRun


def test_every_declared_answer_is_found(running: RunningWorld, make_run: MakeRun) -> None:
    internet = running.internet
    records = internet.records(1)
    run = make_run(resolve="rate = 2000\nattempts = 2")
    names = [name for _, name in internet.names]
    (run.path.parents[1] / "names.txt").write_text("\n".join(names))
    argv = [sys.executable, "-m", "cli", "stage", "targets", "resolve", "--run", str(run.path)]
    done = running.world.run([*argv, "--vantage", "here", "--repetition", "1"])
    assert done.status == 0, done.stderr
    rows = pq.read_table(run.layout.dns_answer(run.key("here", 1))).to_pylist()

    def end_of(name: str) -> tuple[list[str], list[int], str]:
        chain: list[str] = []
        ttls: list[int] = []
        while alias := [r for r in records if r.name == name and r.type == "CNAME"]:
            name = alias[0].data
            chain.append(name)
            ttls.append(alias[0].ttl)
        return chain, ttls, name

    aliases = 0
    for name in names:
        chain, ttls, end = end_of(name)
        aliases += bool(chain)
        for qtype in ("A", "AAAA", "HTTPS"):
            found = [row for row in rows if row["domain"] == name and row["qtype"] == qtype]
            declared = [r for r in records if r.name == end and r.type == qtype]
            failure = (
                "SERVFAIL" if name in internet.servfail else "NXDOMAIN" if name in internet.nxdomain else None
            )
            expected = failure or ("NOERROR" if declared else "NODATA")
            assert {row["status"] for row in found} == {expected}, (name, qtype)
            assert all((row["cname_chain"], row["cname_ttls"]) == (chain, ttls) for row in found), name
            if qtype != "HTTPS":
                addresses = sorted(row["address"] for row in found if row["address"])
                assert addresses == sorted(r.data for r in declared), (name, qtype)
                assert {row["ttl"] for row in found if row["address"]} == {r.ttl for r in declared}
            else:
                assert len([row for row in found if row["https_priority"] is not None]) == len(declared)
    assert aliases > 0 and len(names) >= 400
