"""vantage_points.toml: its declarations, and a one-sentence error for every fault."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from firstflight.errors import UsageError
from orchestration.airflow import worker
from orchestration.site import site, vantage_points
from tests.airflow.conftest import SITE

GOOD = '[[vantage]]\nname = "a"\ncity = "A"\nqueue = "a"\n'


def test_the_labs_file_declares_four() -> None:
    points = vantage_points.load(SITE / "vantage_points.toml")
    assert [v.name for v in points.vantage] == ["hamburg", "los_angeles", "sao_paulo", "hong_kong"]
    assert points.named("hong_kong").sources == ("198.18.0.14", "2001:db8:0:14::1")
    with pytest.raises(UsageError, match=r"no vantage point is called x; .* names hamburg"):
        points.named("x")


def test_pools_for_scans_for_watches_and_for_what_sends_nothing() -> None:
    pools = vantage_points.pools(vantage_points.load(SITE / "vantage_points.toml"))
    assert len(pools) == 16
    slots = {name.split("_")[0]: pool["slots"] for name, pool in pools.items()}
    assert slots == {"scan": 1, "watch": 2, "download": 1, "work": 2}
    assert sum(slots.values()) <= worker.SLOTS
    assert "150 new probes per second" in pools["scan_hamburg"]["description"]


def test_each_shard_of_a_scan_has_a_pool_of_its_own() -> None:
    point = vantage_points.load(SITE / "vantage_points.toml").named("hamburg")
    divided = point.model_copy(update={"shards": 3})
    assert [tuple(map(str, part)) for part in divided.scan_parts] == [
        ("shard_0", "0/3", "scan_hamburg.0"),
        ("shard_1", "1/3", "scan_hamburg.1"),
        ("shard_2", "2/3", "scan_hamburg.2"),
    ]
    pools = vantage_points.pools(vantage_points.VantagePoints(vantage=(divided,)))
    slots = {name: pool["slots"] for name, pool in pools.items()}
    scans = {f"scan_hamburg.{index}": 1 for index in range(3)}
    assert slots == {**scans, "watch_hamburg": 2, "download_hamburg": 1, "work_hamburg": 4}
    assert sum(slots.values()) <= worker.SLOTS + 2 * worker.SLOTS_OF_SHARD
    assert "shard 0/3 of one scan at a time, at most 50 new" in pools["scan_hamburg.0"]["description"]


def test_a_watch_by_hand_has_ports_of_its_own() -> None:
    point = vantage_points.load(SITE / "vantage_points.toml").named("hamburg")
    assert point.model_copy(update={"watch_ports": "61064-61075"}).watching(manual=False).watch_ports == (
        "61064-61071"
    )
    assert point.model_copy(update={"watch_ports": "61064-61075"}).watching(manual=True).watch_ports == (
        "61072-61075"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "vantage: missing"),
        ("vantage = []", "there is no [[vantage]]"),
        (GOOD + "[x", "is not TOML"),
        (GOOD + "speed = 3\n", "vantage.0.speed: no such setting"),
        (GOOD + GOOD, "two vantage points have the name a"),
        (GOOD + GOOD.replace('name = "a"', 'name = "b"'), "two vantage points have the queue a"),
        (
            GOOD + 'sources = ["198.18.0.300"]\n',
            "vantage.0.sources.0: is neither an IPv4 nor an IPv6 address",
        ),
        (GOOD + 'blocked = ["198.18.0.1/24"]\n', "vantage.0.blocked.0: 198.18.0.1/24 has host bits set"),
        (
            GOOD + 'watch_ports = "61050-61080"\n',
            "watch_ports 61050-61080 overlap",
        ),
        (GOOD + 'watch_ports = "61064-61074"\n', "watch_ports 61064-61074 are fewer than twelve"),
        (GOOD + "shards = 0\n", "vantage.0.shards: Input should be greater than or equal to 1"),
        (GOOD + "shards = 33\n", "scan_ports 61000-61063 are fewer than two for each of 33 shards"),
        (GOOD + "scan_rate = 0\n", "vantage.0.scan_rate: Input should be greater than 0"),
        (GOOD.replace('"a"\ncity', '"A b"\ncity'), "vantage.0.name: String should match pattern"),
        (GOOD.replace('city = "A"\n', ""), "vantage.0.city: missing"),
    ],
)
def test_a_fault_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "vantage_points.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        vantage_points.load(path)
    assert str(caught.value).startswith(str(path)) and says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_site_that_is_not_named_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FIRSTFLIGHT_SITE", raising=False)
    with pytest.raises(UsageError, match="FIRSTFLIGHT_SITE is not set"):
        vantage_points.site_folder()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[[vantage]]\nname = "x"\n', "belongs in vantage_points.toml"),
        ('[campaign]\nbefore_repetition = ["true"]\n', "does not work on a schedule"),
        ('[download]\ndraw = "survey"\n', "does not work on a schedule"),
        ('[probe]\nspeed = "x"\n', "probe.speed: no such setting"),
    ],
)
def test_a_fault_in_site_toml_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, says: str
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    text = '[targets]\nsource = "tranco"\ntop = 5\n[as_data]\nrib = "routeviews"\n'
    (tmp_path / "site.toml").write_text(text + more)
    points = vantage_points.load(SITE / "vantage_points.toml").vantage
    with pytest.raises(UsageError) as caught:
        site.settings_for(date(2024, 8, 7), points)
    assert says in str(caught.value)


def test_the_day_becomes_the_date_of_list_and_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    (tmp_path / "site.toml").write_text(
        '[campaign]\ncontact = "a@example.org"\n[targets]\nsource = "tranco"\ntop = 5\n'
        '[as_data]\nrib = "routeviews"\n'
    )
    points = vantage_points.load(SITE / "vantage_points.toml").vantage
    points = (points[0].model_copy(update={"shards": 3}), *points[1:])
    settings, _ = site.settings_for(date(2024, 8, 7), points)
    assert [v.shards for v in settings.vantage] == [3, 1, 1, 1]
    # Only scans are divided: a survey takes the turns of the first shard.
    for file, shards in ((site.WATCH_FILE, 1), (site.DOWNLOADS_FILE, 3)):
        (tmp_path / file).write_text((tmp_path / "site.toml").read_text())
        undivided, _ = site.settings_for(date(2024, 8, 7), points, file=file)
        assert [v.shards for v in undivided.vantage] == [shards, 1, 1, 1]
        # The watch's list is prepared on the day before.
        of_list = date(2024, 8, 6 if file == site.WATCH_FILE else 7)
        assert (undivided.targets.date, undivided.as_data.date) == (of_list, date(2024, 8, 7))
    assert settings.targets.date == settings.as_data.date == date(2024, 8, 7)
    assert [settings.rate_at(v) for v in settings.vantage] == [150.0] * 4
    assert settings.vantage_named("hamburg").sources == ("198.18.0.11", "2001:db8:0:11::1")


@pytest.mark.parametrize(
    ("day", "month"), [("2026-11-20", "202610"), ("2026-11-14", "202609"), ("2026-01-20", "202512")]
)
def test_the_months_list_that_is_out_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, day: str, month: str
) -> None:
    monkeypatch.setenv("FIRSTFLIGHT_SITE", str(tmp_path))
    (tmp_path / "site.toml").write_text(
        '[campaign]\ncontact = "a@example.org"\n[targets]\nsource = "tranco+crux"\ntop = 5\n'
        '[as_data]\nrib = "routeviews"\nas2org = "caida"\n'
    )
    points = vantage_points.load(SITE / "vantage_points.toml").vantage
    settings, _ = site.settings_for(date.fromisoformat(day), points)
    assert settings.targets.crux_month == month
    assert settings.as_data.as2org_date == settings.targets.date == date.fromisoformat(day)
