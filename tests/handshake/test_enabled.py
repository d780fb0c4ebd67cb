"""Settings of the handshake stage: whether it runs, the output of a dry run, and the stored settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from firstflight import settings
from firstflight.errors import UsageError
from firstflight.run.run import Run
from orchestration.local import preview
from scanner.calibrate import engines
from scanner.calibrate import stage as calibrate
from scanner.handshake import stage
from tests import minimal


def load(folder: Path, *overrides: str) -> tuple[settings.Settings, str]:
    return settings.load(minimal.write(folder), overrides)


@pytest.mark.parametrize(
    "fault",
    [
        "share=1.5",
        "share=-0.1",
        "limit=0",
        "rate=0",
        "verify=all",
        "key_share=x448",
        "sni=maybe",
        "second=x",
        "alpn=[]",
        'alpn=["h3,x"]',
        "path=a",
        "path=/a b",
        "timeout_s=61",
        "roots=nowhere.pem",
    ],
)
def test_faults_name_the_key(tmp_path: Path, fault: str) -> None:
    with pytest.raises(UsageError, match=rf"c\.toml: handshake\.{fault.partition('=')[0]}"):
        load(tmp_path, f"handshake.{fault}")


def test_roots_are_for_chains(tmp_path: Path) -> None:
    (tmp_path / "roots.pem").touch()
    with pytest.raises(UsageError, match="`roots` requires verify"):
        load(tmp_path, f"handshake.roots={tmp_path}/roots.pem")


def test_the_engine_gets_the_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    roots = tmp_path / "roots.pem"
    roots.touch()
    for overrides, given in (((), []), ((f"handshake.roots={roots}",), ["--roots", str(roots)])):
        run = Run.create(*load(tmp_path, "handshake.enabled=true", "handshake.verify=chain", *overrides))
        argv = stage.HandshakeStage(run, run.key("here", 1)).engine_arguments()
        assert argv[argv.index("--roots") :][:2] == given if given else "--roots" not in argv


@pytest.mark.parametrize("fault", ["share=1.5", "limit=0", "rate=0", "block=1", "block=10001", "gap_s=-1"])
def test_faults_of_pairs_name_the_key(tmp_path: Path, fault: str) -> None:
    with pytest.raises(UsageError, match=rf"c\.toml: calibrate\.{fault.partition('=')[0]}"):
        load(tmp_path, f"calibrate.{fault}")


@pytest.mark.parametrize("section", ["handshake", "calibrate"])
def test_settings_without_it_are_stored_as_before(tmp_path: Path, section: str) -> None:
    plain, _ = load(tmp_path)
    assert section not in plain.model_dump(mode="json")
    changed, _ = load(tmp_path, f"{section}.limit=5")
    stored = changed.model_dump(mode="json")
    assert stored[section]["limit"] == 5
    assert settings.check(stored, "stored", tmp_path) == changed


@pytest.mark.parametrize("name", ["handshake", "calibrate"])
def test_a_run_that_does_not_enable_it_sends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    run = Run.create(*load(tmp_path))
    key = run.key("here", 1)
    with pytest.raises(UsageError, match=rf"{name}\.enabled is false"):
        {"handshake": stage, "calibrate": calibrate}[name].stage(run, key)
    assert run.report(name, key) is None


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ((), None),
        (
            ("handshake.enabled=true",),
            "handshakes: with 1 % of the names, at most 1, one HTTP/3 HEAD request of / each; at most 50 per "
            "second and vantage point",
        ),
        (
            ("handshake.enabled=true", "handshake.share=1", 'handshake.cdn=["Fastly"]', "handshake.limit=7"),
            "handshakes: with 100 % of the names with addresses of Fastly, at most 1, one HTTP/3 HEAD "
            "request of / each; at most 50 per second and vantage point",
        ),
    ],
)
def test_a_dry_run_announces_it(tmp_path: Path, overrides: tuple[str, ...], line: str | None) -> None:
    found = [
        text for text in preview.describe(load(tmp_path, *overrides)[0]) if text.startswith("handshakes")
    ]
    assert found == ([] if line is None else [line])
    total = next(text for text in preview.describe(load(tmp_path, *overrides)[0]) if text.startswith("here"))
    assert ("0:00:13" in total) == (line is not None)


@pytest.mark.parametrize(
    ("overrides", "line", "seconds"),
    [
        (
            ("calibrate.enabled=true", "calibrate.share=1"),
            "pairs of a probe and a handshake: with 100 % of the names, at most 1, in blocks of 50; at most "
            "50 connections per second and vantage point",
            "0:00:33",  # of these 3 for the probes, 4 of pauses, 2 times 3 + 10 of silence
        ),
        (
            ("calibrate.enabled=true", 'calibrate.cdn=["Fastly"]', "calibrate.gap_s=2", "calibrate.block=9"),
            "pairs of a probe and a handshake: with 1 % of the names with addresses of Fastly, at most 1, in "
            "blocks of 9; at most 50 connections per second and vantage point",
            "0:00:37",
        ),
    ],
)
def test_a_dry_run_announces_pairs(
    tmp_path: Path, overrides: tuple[str, ...], line: str, seconds: str
) -> None:
    found = list(preview.describe(load(tmp_path, *overrides)[0]))
    assert line in found
    assert seconds in next(text for text in found if text.startswith("here"))


@pytest.mark.parametrize(
    ("overrides", "pause"),
    [
        ((), 1.0),
        (("calibrate.gap_s=4",), 4.0),
        (("calibrate.gap_s=0", "probe.per_address_rate=0.25"), 4.0),
        (("calibrate.gap_s=0", "probe.per_address_rate=0", "probe.per_prefix_rate=20"), 1.0),
        (("calibrate.gap_s=0", "probe.per_address_rate=0", "probe.per_prefix_rate=0"), 0.0),
    ],
)
def test_a_pause_between_engines_keeps_the_limits(
    tmp_path: Path, overrides: tuple[str, ...], pause: float
) -> None:
    assert engines.pause_s(load(tmp_path, *overrides)[0]) == pause
