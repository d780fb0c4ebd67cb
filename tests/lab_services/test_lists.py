"""The package `tranco` downloads the lab's lists as it does from the real host."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lab.hosts import list_host

from .conftest import RunningWorld


def tranco(running: RunningWorld, cache: Path, *wanted: dict[str, Any]) -> list[dict[str, Any]]:
    arguments = [json.dumps(request) for request in wanted]
    return list(running.world.client("tranco", str(cache), *arguments, env=running.trust))


def domains(running: RunningWorld) -> list[str]:
    return [name for _, name in running.internet.names]


def test_lists_by_day(running: RunningWorld, tmp_path: Path) -> None:
    latest, main, full, subdomains, old = tranco(
        running,
        tmp_path,
        {},
        {"date": str(list_host.MAIN_DAY)},
        {"date": str(list_host.MAIN_DAY), "full": True},
        {"date": str(list_host.MAIN_DAY), "subdomains": True},
        {"date": str(list_host.OLD_DAY)},
    )
    for fetched in (latest, main, full, subdomains):
        assert fetched["names"] == domains(running)
    assert full["id"] == main["id"]
    assert len({latest["id"], main["id"], subdomains["id"], old["id"]}) == 4
    assert old["names"] != domains(running)[: len(old["names"])]
    assert set(old["names"]) < set(domains(running))
    assert main["metadata"]["list_id"] == main["id"]
    assert main["metadata"]["available"] is True


def test_lists_of_the_next_days(running: RunningWorld, tmp_path: Path) -> None:
    """A site in the lab requests the list of the current day every day."""
    tomorrow = datetime.now(UTC).date() + timedelta(days=1)
    for fetched in tranco(running, tmp_path, *({"date": str(tomorrow + timedelta(days=n))} for n in (0, 6))):
        assert fetched["names"] == domains(running)


def test_lists_by_id_and_a_list_without_zip(running: RunningWorld, tmp_path: Path) -> None:
    published = list_host.lists(domains(running), datetime.now(UTC).date())
    (custom,) = [published_list for published_list in published if published_list.day is None]
    (by_day,) = tranco(running, tmp_path / "a", {"date": str(list_host.MAIN_DAY)})
    by_id, without_zip = tranco(
        running, tmp_path / "b", {"list_id": by_day["id"]}, {"list_id": custom.list_id}
    )
    assert by_id["names"] == by_day["names"]
    assert without_zip["names"] == domains(running)[: list_host.CUSTOM_NAMES]
    fetched = tmp_path / "zip"
    url = f"https://{list_host.HOST}/download_daily/{custom.list_id}"
    assert running.world.client("fetch", url, str(fetched), env=running.trust)["status"] == 403


def test_days_and_ids_that_do_not_exist(running: RunningWorld, tmp_path: Path) -> None:
    later = datetime.now(UTC).date() + timedelta(days=list_host.COMING_DAYS + 2)
    for answer in tranco(
        running, tmp_path, {"date": str(later)}, {"date": "2019-01-01"}, {"list_id": "00000"}
    ):
        assert "unavailable" in answer["error"]


@pytest.mark.parametrize("name", ["tranco-list.eu", "archive.routeviews.org"])
def test_the_certificate_counts_only_with_the_labs_authority(
    running: RunningWorld, tmp_path: Path, name: str
) -> None:
    url = f"https://{name}/bgpdata/" if name.startswith("archive") else f"https://{name}/top"
    trusted = running.world.client("fetch", url, str(tmp_path / "page"), env=running.trust)
    assert trusted["status"] in (200, 404)
    assert running.world.client("fetch", url, str(tmp_path / "page"))["error"] == "SSLError"


def test_the_zip_is_the_same_every_time_and_smaller() -> None:
    made = list_host.make_list(list_host.MAIN_DAY, False, [f"name-{i}.test" for i in range(1000)])
    assert made.zip() == made.zip()
    assert len(made.zip()) < len(made.csv())
