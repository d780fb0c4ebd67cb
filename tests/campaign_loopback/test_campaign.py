"""Whole campaigns on loopback with real servers: their output, and their behaviour when interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from firstflight.run.outline import Known
from firstflight.run.run import Run
from firstflight.system.reporting import progress
from orchestration import stages
from tests import drawn
from tests.engines.segments import rows_of
from tests.processes import go_on_when_interrupted
from tests.waiting import PATIENCE_S, until

from .stopping import halted_with
from .world import ANSWERING, FIRSTFLIGHT, OPTED_OUT, SILENT, CampaignWorld, addresses

TARGETS = ANSWERING + SILENT + 1


def run_of(world: CampaignWorld, done: subprocess.CompletedProcess[str]) -> Path:
    """Return the run folder that a campaign names in its last line."""
    return Path(world.folder, "runs", done.stdout.splitlines()[-1])


def manifest(run: Path) -> dict[str, object]:
    value: dict[str, object] = json.loads((run / "manifest.json").read_text())
    return value


def check_rows(world: CampaignWorld, run: Path, vantage: str, repetition: int) -> None:
    """Check that every target is exactly one row, with the outcome that the world determines."""
    rows = world.rows(run, vantage, repetition)
    assert Counter(row["domain"] for row in rows) == Counter(list(addresses()))
    for row in rows:
        name = str(row["domain"])
        if name == OPTED_OUT:
            assert (row["outcome"], row["attempts"], row["sent_at"]) == ("blocked", 0, None)
        elif name.startswith("closed"):
            assert row["outcome"] == "refused", row
            assert (row["asn"], row["cdn"]) == (3320, "Others")
        else:
            assert row["outcome"] in ("coalesced", "sh_first", "iack"), row
            assert (row["asn"], row["cdn"]) == (13335, "Cloudflare")
            assert str(row["capture_file"]).startswith(f"{run.name}/{vantage}/{repetition}/capture/probe")


def segment_rows(run: Path, vantage: str) -> list[dict[str, Any]]:
    """Return the rows in the closed segments."""
    return rows_of(run / vantage / "1" / "probe" / "segments")


def check_traces(world: CampaignWorld, run: Path) -> None:
    """`firstflight trace` finds a row's packets, and their times equal the row's."""

    def trace(name: str, *more: str) -> str:
        argv = [*FIRSTFLIGHT, "trace", run.name, "west", name, addresses()[name], *more]
        return subprocess.run(argv, capture_output=True, text=True, env=world.environment, check=True).stdout

    row = next(row for row in world.rows(run, "west", 2) if row["domain"] == "edge3.camp.test")
    packets = [
        json.loads(line)
        for line in trace("edge3.camp.test", "--repetition", "2", "--format", "jsonl").splitlines()
    ]
    first, sent_at = packets[0], row["sent_at"]
    assert isinstance(sent_at, int)
    assert first["from_client"] and first["type"] == "initial" and first["client_scid"] == row["client_cid"]
    hello = next(p for p in packets if not p["from_client"] and "crypto 0+" in (p["frames"] or ""))
    # The capture and the prober's socket have one stamp of the datagram. Another packet's or another clock's
    # is further away than the rounding of two floors.
    assert isinstance(row["sh_us"], int)
    assert abs((hello["time_ns"] - sent_at) // 1000 - row["sh_us"]) <= 1
    text = trace("edge3.camp.test", "--repetition", "2")
    assert str(row["outcome"]) in text.splitlines()[0] and "connection_close" in text
    assert "icmp" in trace("closed0.camp.test")
    assert "nothing was sent" in trace(OPTED_OUT)


def check_progress(run: Path) -> None:
    """Every stage has shown how far it was, of how much; at its end, all was done."""
    stages = ["targets", "as_data", "load", *(f"west/2/{name}" for name in ("resolve", "probe", "dissect"))]
    for stage in stages:
        state = progress.read(run / stage)
        assert state is not None and state.done == state.total, (stage, state)


@pytest.fixture(scope="module")
def whole(world: CampaignWorld) -> Path:
    """The run of a campaign of two repetitions that nothing disturbs."""
    done = world.campaign("--config", str(world.settings()), "--repetitions", "2")
    assert done.returncode == 0, done.stderr
    return run_of(world, done)


def test_a_complete_campaign(world: CampaignWorld, whole: Path) -> None:
    run = whole
    for vantage in ("east", "west"):
        for repetition in (1, 2):
            check_rows(world, run, vantage, repetition)
            (captured,) = json.loads(
                (run / vantage / str(repetition) / "capture" / "capture.json").read_text()
            )["captures"]
            assert captured["dropped_by_kernel"] == 0
            assert captured["captured"] >= ANSWERING * 3 + SILENT * 2
        assert all(row["since_last_probe_s"] is None for row in world.rows(run, vantage, 1))
        later = [row for row in world.rows(run, vantage, 2) if row["outcome"] != "blocked"]
        assert all(
            isinstance(row["since_last_probe_s"], float) and row["since_last_probe_s"] > 0 for row in later
        )
    about = manifest(run)
    assert about["state"] == "done"
    counts = about["counts"]
    assert isinstance(counts, dict)
    assert counts["targets"] == 4 * TARGETS == counts["sent"] + counts["blocked"]
    assert counts["refused"] == 4 * SILENT
    assert (world.folder / "hook").read_text().split() == ["1", "2"]

    listed = subprocess.run(
        [*FIRSTFLIGHT, "runs", "--format", "jsonl"],
        capture_output=True,
        text=True,
        env=world.environment,
        check=True,
    )
    entry = json.loads(listed.stdout.splitlines()[-1])
    assert (entry["run"], entry["state"], entry["probes"]) == (run.name, "done", 4 * TARGETS)

    check_traces(world, run)

    resumed = world.campaign("--resume", run.name)
    assert resumed.returncode == 0 and resumed.stdout.splitlines()[-1] == run.name
    check_rows(world, run, "east", 1)


@drawn.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], 1)
def test_an_interrupted_campaign_resumes(world: CampaignWorld, signum: signal.Signals) -> None:
    before = set(world.runs())
    path = world.settings("slow.toml", rate=12)
    # The timeout is longer than an engine is halted.
    process = world.start_campaign("--config", str(path), "--set=probe.timeout_s=60")
    (run,) = until(lambda: set(world.runs()) - before, "a run folder")
    engines = halted_with(10, [run / vantage / "1" / "probe" for vantage in ("east", "west")])

    refused = world.campaign("--resume", run.name)
    assert refused.returncode == 2
    assert "in use by process" in refused.stderr

    process.send_signal(signum)
    go_on_when_interrupted(engines)
    out, err = process.communicate(timeout=PATIENCE_S)
    if signum == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 130, err
        assert out.splitlines()[-1] == run.name
        assert manifest(run)["state"] == "interrupted"
    listed = subprocess.run(
        [*FIRSTFLIGHT, "runs", "--format", "jsonl", run.name],
        capture_output=True,
        text=True,
        env=world.environment,
        check=True,
    )
    assert json.loads(listed.stdout)["state"] == ("cut" if signum == signal.SIGKILL else "interrupted")
    rows_before = segment_rows(run, "east")
    assert 0 < len(rows_before) < TARGETS

    done = world.campaign("--resume", run.name)
    assert done.returncode == 0, done.stderr
    for vantage in ("east", "west"):
        check_rows(world, run, vantage, 1)
        assert not (run / vantage / "1" / "probe" / "segments").exists()
    sent = {(row["domain"], row["ip"], row["sent_at"]) for row in world.rows(run, "east", 1)}
    sent_again = [row for row in rows_before if (row["domain"], row["ip"], row["sent_at"]) not in sent]
    assert not sent_again, "a target that was answered was probed again"
    assert manifest(run)["state"] == "done"
    captures = json.loads((run / "east" / "1" / "capture" / "capture.json").read_text())["captures"]
    assert len(captures) == 2
    assert {row["capture_file"] for row in world.rows(run, "east", 1) if row["sent_at"] is not None} == {
        f"{run.name}/east/1/capture/probe.pcap",
        f"{run.name}/east/1/capture/probe-2.pcap",
    }


def test_a_vantage_point_that_fails_does_not_stop_the_others(world: CampaignWorld) -> None:
    vantages = (
        '[[vantage]]\nname = "broken"\ncommand = ["sh", "-c", "echo the link is down >&2; exit 7"]\n'
        '[[vantage]]\nname = "absent"\ncommand = ["/nonexistent/ssh"]\n'
        '[[vantage]]\nname = "east"\ninterface = "lo"\n'
    )
    done = world.campaign("--config", str(world.settings("broken.toml", vantages=vantages)))
    assert done.returncode == 1
    assert "broken, repetition 1: the link is down" in done.stderr
    assert "absent, repetition 1: cannot start /nonexistent/ssh: No such file" in done.stderr
    run = run_of(world, done)
    check_rows(world, run, "east", 1)
    about = manifest(run)
    assert about["state"] == "failed"
    assert "the link is down" in str(about["message"])


@pytest.mark.parametrize(
    ("override", "status", "message"),
    [
        ("resolve.port=1", 3, "resolver"),
        ("campaign.before_repetition=['false']", 1, "campaign.before_repetition (false)"),
        ("vantage.name=x", 2, "change it in the file"),
        ("probe.rate=-1", 2, "probe.rate"),
    ],
)
def test_errors_are_one_sentence(world: CampaignWorld, override: str, status: int, message: str) -> None:
    done = world.campaign("--config", str(world.settings()), "--set", override)
    assert done.returncode == status, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unreadable_routing_table_ends_the_campaign_before_anything_is_sent(world: CampaignWorld) -> None:
    (world.folder / "broken.mrt").write_bytes(b"\x00" * 50)
    done = world.campaign(
        "--config", str(world.settings()), "--set", f"as_data.files=['{world.folder}/broken.mrt']"
    )
    assert done.returncode == 3, done.stderr
    assert "broken.mrt" in done.stderr and "Traceback" not in done.stderr
    run = run_of(world, done)
    assert manifest(run)["state"] == "failed"
    assert not (run / "east").exists()


def test_a_target_outside_the_lab_without_contact_sends_nothing(world: CampaignWorld) -> None:
    path = world.settings("outside.toml")
    path.write_text(path.read_text().replace("127.9.0.0/16", "127.9.1.0/24"))
    done = world.campaign("--config", str(path))
    assert done.returncode == 2
    assert "contact" in done.stderr
    run = run_of(world, done)
    assert not list((run / "east" / "1" / "probe" / "segments").glob("*.arrow"))


def test_a_campaign_sends_no_more_than_its_dry_run_says(whole: Path) -> None:
    run = Run(whole)
    vantage, known = run.settings.vantage[0], Known(names=TARGETS + 1)
    probe = stages.named("probe").outlined(run.settings, known, vantage).traffic
    resolve = stages.named("resolve").outlined(run.settings, known, vantage).traffic
    assert probe is not None and resolve is not None
    folder = whole / "east" / "1"
    about = json.loads((folder / "probe" / "summary.json").read_text())
    datagrams = sum(about[name] for name in ("sent", "retransmissions", "token_initials", "closes"))
    assert TARGETS - 1 <= datagrams <= probe.packets
    # Each packet has 16 bytes for its record and 14 for the link; Initials of aioquic are as large as ours.
    size = sum(path.stat().st_size for path in (folder / "capture").glob("*.pcap"))
    assert 0 < size <= probe.sent_bytes + probe.received_bytes + 30 * probe.packets
    queries = json.loads((folder / "resolve" / "summary.json").read_text())["sent"]["datagrams"]
    assert 3 * TARGETS <= queries <= resolve.packets


def test_a_dry_run_lists_stages_and_runs_none(world: CampaignWorld) -> None:
    before = world.runs()
    done = world.campaign("--config", str(world.settings()), "--dry-run", "--set", "probe.rate=7")
    assert done.returncode == 0, done.stderr
    assert f"at most {TARGETS + 1}" in done.stdout
    assert "at most 7 probes" in done.stdout
    assert "optout.conf" in done.stdout
    assert world.runs() == before


def test_a_stage_alone_and_again(world: CampaignWorld, whole: Path) -> None:
    run = whole
    first = {row["domain"]: row["sent_at"] for row in world.rows(run, "east", 1)}

    def stage(*more: str) -> subprocess.CompletedProcess[str]:
        argv = [
            *FIRSTFLIGHT,
            "stage",
            "probe",
            "--run",
            run.name,
            "--vantage",
            "east",
            "--repetition",
            "1",
            *more,
        ]
        return subprocess.run(argv, capture_output=True, text=True, env=world.environment)

    assert "already done" in stage().stderr
    assert {row["domain"]: row["sent_at"] for row in world.rows(run, "east", 1)} == first
    assert stage("--again").returncode == 0
    check_rows(world, run, "east", 1)
    second = {row["domain"]: row["sent_at"] for row in world.rows(run, "east", 1)}
    assert all(second[name] != sent_at for name, sent_at in first.items() if sent_at is not None)


def test_a_broken_line_is_named_and_the_rest_is_done(world: CampaignWorld) -> None:
    listed = world.folder / "broken.csv"
    listed.write_text("edge0.camp.test\nnot a name\nedge1.camp.test\n")
    done = world.campaign("--config", str(world.settings()), "--set", f"targets.file={listed}")
    assert done.returncode == 1, done.stderr
    assert "targets: line 2 rejected: " in done.stderr
    run = run_of(world, done)
    assert manifest(run)["state"] == "done"
    assert {row["domain"] for row in world.rows(run, "east", 1)} == {"edge0.camp.test", "edge1.camp.test"}
    query = f"SELECT state FROM run WHERE run = '{run.name}'"
    assert world.sql(query) == "done\n"
