"""The programs of the lab's site (`make airflow`), without starting them; tests/airflow/test_site.py does."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from lab.site import announce, plan
from lab.site.plan import Level, SiteProgram
from lab.site.run import Programs
from lab.state import StateFolder

PLACES = ("hamburg", "los_angeles")


def site(folder: Path) -> plan.SiteFolder:
    """Return a site of two vantage points in `folder`, prepared."""
    (folder / "lab").mkdir()
    prepared = plan.SiteFolder(folder / "site", StateFolder(folder / "lab"), "198.18.0.10", PLACES)
    plan.prepare(prepared)
    return prepared


def test_vantage_points_follow_the_list_of_the_centre(tmp_path: Path) -> None:
    lab_site = site(tmp_path)
    entered = Path(plan.centre_environment(lab_site)["FIRSTFLIGHT_OPTOUT"])
    assert entered.read_text() == ""
    parts = {part.name: part for part in plan.parts(lab_site)}
    copies = set()
    for place in PLACES:
        follower, worker = parts[f"optout-{place}"], parts[f"worker-{place}"]
        assert follower.host == worker.host == place
        assert follower.argv[-4:] == ("optout", "follow", "--secret-file", str(lab_site.secrets.jwt))
        # The stages that the worker starts read the file that the follower writes.
        value = worker.env["FIRSTFLIGHT_OPTOUT"]
        assert value == follower.env["FIRSTFLIGHT_OPTOUT"]
        copies.add(Path(value.removeprefix("followed:")))
        # The follower sends requests to the centre, so it starts after the centre's servers.
        assert follower.level > parts["api-server"].level
    assert len(copies) == len(PLACES) and entered not in copies
    assert all(copy.parent.is_dir() and not copy.exists() for copy in copies)


def test_a_site_that_starts_again_keeps_its_list(tmp_path: Path) -> None:
    lab_site = site(tmp_path)
    lab_site.optout("centre").write_text("192.0.2.0/24  # 2026-05-03\n")
    plan.prepare(lab_site)
    assert lab_site.optout("centre").read_text() == "192.0.2.0/24  # 2026-05-03\n"


def test_the_line_for_optouts_names_the_centres_list(tmp_path: Path) -> None:
    lab_site = site(tmp_path)
    variable, *command = shlex.split(announce.optout_line(lab_site))
    assert variable == f"FIRSTFLIGHT_OPTOUT={lab_site.optout('centre')}"
    assert command[1:] == ["optout", "add"]


def test_the_file_that_names_a_site_is_always_complete(tmp_path: Path) -> None:
    """Other processes wait for the file, and read it as soon as it exists."""
    lab_site = site(tmp_path)
    about = lab_site.folder / "site.json"
    about.write_text("{}\n")

    class Up(Programs):
        page = "http://127.0.0.1:1"

    with about.open() as reading:
        announce.announce(lab_site, Up(lab_site))
        assert reading.read() == "{}\n", "the file must be replaced, not overwritten"
    assert json.loads(about.read_text())["page"] == Up.page


# Exits in order but slowly, like a database that writes its memory to the disk.
_SLOW = """
import signal, sys, time
def end(*_):
    time.sleep(11)
    sys.exit("the database is shut down")
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    signal.pause()
"""


def test_a_database_has_time_to_end_in_order(tmp_path: Path) -> None:
    lab_site = site(tmp_path)
    with Programs(lab_site) as programs:
        programs.start(SiteProgram("database", "", (sys.executable, "-c", _SLOW), {}, "up", Level.BASE))
        programs.wait_ready(["database"])
    assert (lab_site.logs / "database.log").read_text() == "up\nthe database is shut down\n"
