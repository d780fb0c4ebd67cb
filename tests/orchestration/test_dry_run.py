"""A dry run's output: all settings that change the traffic, all stages, and the names as they were read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from firstflight import settings
from firstflight.errors import FirstflightError
from firstflight.settings import Settings
from orchestration import stages
from orchestration.local import preview
from orchestration.stages import RunPlan
from tests import minimal

# All stages except for the scan, which adds targets to later ones.
ALL = tuple(
    f"{stage.enabled_by}.enabled=true" for stage in stages.STAGES if stage.enabled_by not in (None, "scan")
)
# A value other than the default for each setting that changes the traffic.
CHANGES = [
    "campaign.repetitions=2",
    "campaign.repetition_interval_s=90000",
    "campaign.shared_limits=false",
    "resolve.resolver=192.0.2.1",
    "resolve.rate=7",
    "resolve.attempts=2",
    "probe.rate=7",
    "probe.ecn=ect1",
    "probe.version=reserved",
    "probe.initial_size=1300",
    "probe.initial_sizes=[1200, 1400]",
    "probe.listen_s=5",
    "probe.attempts=1",
    "probe.port=444",
    "probe.families=[4]",
    "probe.all_addresses=true",
    "probe.ports=50000-50063",
    "probe.settle_ms=7",
    "capture.enabled=false",
    "backoff.control=['control.test']",
    "backoff.resume_after_s=7",
    "scan.rate=7",
    "scan.cooldown_s=7",
    "handshake.second=true",
    "handshake.ech=grease",
    "handshake.path=/x",
    "calibrate.block=7",
    "crawl.max_requests=7",
    "tcp_options.attempts=2",
    "download.max_bytes=1000",
    "download.sets=['bl']",
    "download.per_cdn=1",
]


def described(folder: Path, *overrides: str, plan: RunPlan = RunPlan.SCAN) -> list[str]:
    in_force, _ = settings.load(folder / "c.toml", overrides)
    return list(preview.describe(in_force, plan))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    minimal.write(tmp_path)
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_of_what_is_sent_is_shown(folder: Path, change: str) -> None:
    plain, changed = ("\n".join(described(folder, *ALL, *minimal.SCAN, *more)) for more in ((), (change,)))
    name = change.partition(".")[2].partition("=")[0]
    marked = re.compile(rf"\b{name}\*=")
    assert len(marked.findall(changed)) == len(marked.findall(plain)) + 1


def test_every_setting_of_the_stages_is_listed(folder: Path) -> None:
    """A setting that is added later is listed without a change of the dry run."""
    text = "\n".join(described(folder, *ALL, *minimal.SCAN))
    for section, field in Settings.model_fields.items():
        if section in ("watch", "vantage", "network"):
            continue
        assert field.annotation is not None
        for name in filter(preview.is_listed, field.annotation.model_fields):
            paragraph = text[text.index(f"\n  {section}: ") :]
            assert f"{name}=" in paragraph or f"{name}*=" in paragraph, (section, name)


@pytest.mark.parametrize(
    ("stage", "amounts"),
    [
        # 3 types, 3 attempts each, at 200 per second.
        ("resolve", "9 packets, 900 B sent, 11.5 kB received, 0:00:00"),
        # 2 families, 2 attempts, 3 datagrams of 1,300 bytes.
        ("probe", "12 packets, 15.6 kB sent, 46.8 kB received, 0:00:08"),
        ("calibrate", "138 packets, 28.1 kB sent, 154 kB received, 0:00:30"),
        # 2 families, 3 attempts, 6 segments of 80 bytes.
        ("tcp_options", "36 packets, 2.88 kB sent, 2.88 kB received, 0:00:10"),
        # 6 DNS queries of 3 s, then 5 sets with a single file and one check for HTTP/3, 46 s each.
        ("download", "37,522 packets, 3.01 MB sent, 55.4 MB received, 0:04:54"),
        ("crawl, once", "16,486 packets, 1.58 MB sent, 21.1 MB received, 0:10:10"),
        ("targets, once", "sends nothing"),
    ],
)
def test_a_stage_has_its_packets_bytes_and_time(folder: Path, stage: str, amounts: str) -> None:
    assert f"  {stage}: {amounts}" in described(folder, *ALL, "probe.listen_s=5")


def test_the_time_of_a_repetition_includes_all_its_stages(folder: Path) -> None:
    """3.1 s for probes, 10 for handshakes, 18 for DNS, 276 for downloads; the crawl runs before."""
    on = ("handshake.enabled=true", "crawl.enabled=true", "download.enabled=true")
    (line,) = (line for line in described(folder, *on) if line.startswith("here: "))
    assert line.endswith("about 0:05:07 a repetition if no limit delays it")


def test_unknown_amounts_are_unknown(folder: Path) -> None:
    lines = described(folder, "probe.all_addresses=true")
    assert (
        "  probe: unknown, because the number of addresses of a name is unknown before it is resolved"
        in lines
    )
    assert any(line.startswith("here: ") and "a repetition" not in line for line in lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("b.test\nA.test\n", ["names: {}, at most 2", "the first names: b.test, a.test"]),
        (
            "".join(f"n{n}.test\n" for n in range(9)),
            ["names: {}, at most 9", "the first names: n0.test, n1.test, n2.test, n3.test, n4.test, ..."],
        ),
        (
            "a.test\nhttps://b.test/x\na.test\n",
            [
                "duplicate names: 1",
                "rejected lines: 1 of 3",
                "  line 2: 'https://b.test/x' is a URL or a path, not a name; write only the host's name",
            ],
        ),
    ],
)
def test_the_first_names_are_shown_as_they_were_read(folder: Path, text: str, says: list[str]) -> None:
    (folder / "names.csv").write_text(text)
    found = described(folder)
    assert [line for line in says if line.format(folder / "names.csv") not in found] == []


def test_the_first_rejected_lines_are_shown(folder: Path) -> None:
    (folder / "names.csv").write_text("a.test\n" + "https://b.test/\n" * 4)
    found = described(folder)
    assert "rejected lines: 4 of 5" in found
    shown = [line.partition(":")[0] for line in found if line.startswith("  line ")]
    assert shown == ["  line 2", "  line 3", "  line 4"]


def test_names_of_a_list_that_was_fetched_before_are_shown(folder: Path) -> None:
    (folder / "ABCDE.csv").write_text("1,one.test\n2,two.test\n3,three.test\n")
    (folder / "daily-2024-08-07.id").write_text("ABCDE\n")
    text = (folder / "c.toml").read_text().replace('source = "file"\nfile = "names.csv"', 'source = "tranco"')
    (folder / "c.toml").write_text(text)
    overrides = ("targets.date=2024-08-07", "targets.top=2", f"targets.cache_dir={folder}")
    found = described(folder, *overrides)
    assert found[:2] == ["names: Tranco list of 2024-08-07, at most 2", "the first names: one.test, two.test"]
    unknown = "  targets, once: unknown, because the list is fetched, unless it is in the cache"
    assert unknown in described(folder, *overrides, "targets.date=2024-08-06")


@pytest.mark.parametrize(
    ("names", "overrides", "status", "says"),
    [
        ("", (), 3, "holds no name"),
        (
            "https://a.test/\nhttps://b.test/\n",
            (),
            3,
            "2 lines were rejected, line 1: 'https://a.test/' is a URL",
        ),
        (
            "a.test\n",
            ("as_data.rib=routeviews", "as_data.files=[]", "as_data.date=2031-01-01"),
            2,
            "in the future",
        ),
        (
            "a.test\n",
            ("targets.date=2031-01-01",),
            2,
            "2031-01-01 is in the future: choose a day that is over",
        ),
        ("a.test\n", ("targets.crux_month='203101'",), 2, "203101 is in the future"),
        ("a.test\n", ("probe.families=[]",), 2, "probe.families"),
        ("a.test\n", ("download.enabled=true", "download.sets=['x']"), 2, "'x' is no option set"),
    ],
)
def test_impossible_values_are_refused(
    folder: Path, names: str, overrides: tuple[str, ...], status: int, says: str
) -> None:
    (folder / "names.csv").write_text(names)
    with pytest.raises(FirstflightError) as caught:
        described(folder, *overrides)
    assert (caught.value.exit_status, says in str(caught.value)) == (status, True), str(caught.value)


def test_a_stored_day_does_not_depend_on_the_clock(folder: Path) -> None:
    """A vantage point with a slow clock can read a run's settings."""
    stored = settings.load(folder / "c.toml")[0].model_dump(mode="json")
    stored["as_data"] |= {"rib": "routeviews", "files": [], "date": "2031-01-01"}
    assert str(settings.check(stored, "stored", folder, check_files=False).as_data.date) == "2031-01-01"


def test_a_watch_prints_what_it_sends_and_what_has_no_effect(folder: Path) -> None:
    without_effect = ("probe.ecn=ect0", "probe.https_record=h3")
    lines = described(folder, "watch.period_s=600", *without_effect, plan=RunPlan.WATCH)
    assert "once in 60 s: at most 1 names of the list" in lines
    assert "without effect in a watch: probe.ecn, probe.https_record" in lines
    # 10 slots of 3 datagrams, 2 resolutions with 3 attempts.
    assert "  watch: 36 packets, 39.6 kB sent, 125 kB received, 0:10:00" in lines
    assert any(line.startswith("  watch: period_s*=600") for line in lines)
