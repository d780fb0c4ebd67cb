"""After a change to a name's declared behaviour, only this name's rows change."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.conftest import FinishedCampaign
from tests.end_to_end.site import BEHAVIOUR, VANTAGES, LabFolders

SOME = VANTAGES[:2]


def test_one_changed_name_changes_only_its_rows(finished: FinishedCampaign, tmp_path: Path) -> None:
    name = next(
        domain
        for (_, domain, _), expected in sorted(finished.truth.items())
        if expected["cdn"] == "Cloudflare" and expected["mode"] == "iack"
    )
    changed_file = tmp_path / "internet.toml"
    override = f'\n[[override]]\ndomain = "{name}"\nmode = "wait"\ndelay_ms = 7.0\n'
    changed_file.write_text(BEHAVIOUR.read_text(encoding="utf-8") + override, encoding="utf-8")

    other = LabFolders(tmp_path)
    other.firstflight("lab", "up", "--behaviour", str(changed_file))
    try:
        printed = other.firstflight(
            "campaign", "run", "--config", str(other.config(SOME)), "--repetitions", "1"
        )
    finally:
        other.firstflight("lab", "down")
    # `attempts` is not compared: on a slow machine, an answer may be too late for the first attempt.
    columns = "vantage, domain, ip, outcome, asn, cdn, retried, hello_retry"
    rows = other.sql(f"SELECT {columns} FROM quic_probe WHERE run = '{printed.splitlines()[-1]}'")

    before = {
        (r["vantage"], r["domain"], r["ip"]): {c: r[c] for c in columns.split(", ")}
        for r in finished.rows
        if r["repetition"] == 1 and r["vantage"] in SOME
    }
    after = {(r["vantage"], r["domain"], r["ip"]): r for r in rows}
    assert set(before) == set(after)
    differing = [key for key in before if before[key] != after[key]]
    assert {key[1] for key in differing} == {name}
    families = {":" in ip for _, domain, ip in before if domain == name}
    assert len(differing) == len(SOME) * len(families)
    for key in differing:
        assert (before[key]["outcome"], after[key]["outcome"]) == ("iack", "coalesced")
