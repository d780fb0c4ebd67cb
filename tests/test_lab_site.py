"""The programs of the lab's site (`make airflow`), without starting them; tests/airflow/test_site.py does."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

from lab.site import announce, plan
from lab.site.plan import Level, Part
from lab.site.run import Programs
from lab.state import State

PLACES = ("hamburg", "los_angeles")


def site(folder: Path) -> plan.Site:
    """Return a site of two vantage points in `folder`, prepared."""
    (folder / "lab").mkdir()
    one = plan.Site(folder / "site", State(folder / "lab"), "198.18.0.10", PLACES)
    plan.prepare(one)
    return one


def test_vantage_points_follow_the_list_of_the_centre(tmp_path: Path) -> None:
    one = site(tmp_path)
    entered = Path(plan.centre_environment(one)["FIRSTFLIGHT_OPTOUT"])
    assert entered.read_text() == ""
    parts = {part.name: part for part in plan.parts(one)}
    copies = set()
    for place in PLACES:
        follower, worker = parts[f"optout-{place}"], parts[f"worker-{place}"]
        assert follower.host == worker.host == place
        assert follower.argv[-4:] == ("optout", "follow", "--secret-file", str(one.secrets.jwt))
        # The stages that the worker starts read the file that the follower keeps.
        value = worker.env["FIRSTFLIGHT_OPTOUT"]
        assert value == follower.env["FIRSTFLIGHT_OPTOUT"]
        copies.add(Path(value.removeprefix("followed:")))
        # It asks the centre, so it starts after the centre's servers.
        assert follower.level > parts["api-server"].level
    assert len(copies) == len(PLACES) and entered not in copies
    assert all(copy.parent.is_dir() and not copy.exists() for copy in copies)


def test_a_site_that_starts_again_keeps_its_list(tmp_path: Path) -> None:
    one = site(tmp_path)
    one.optout("centre").write_text("192.0.2.0/24  # 2026-05-03\n")
    plan.prepare(one)
    assert one.optout("centre").read_text() == "192.0.2.0/24  # 2026-05-03\n"


def test_the_line_for_optouts_names_the_centres_list(tmp_path: Path) -> None:
    one = site(tmp_path)
    variable, *command = shlex.split(announce.optout_line(one))
    assert variable == f"FIRSTFLIGHT_OPTOUT={one.optout('centre')}"
    assert command[1:] == ["optout", "add"]


def test_what_names_a_site_is_whole_at_any_time(tmp_path: Path) -> None:
    """Others wait for the file, and read it as soon as it is there."""
    one = site(tmp_path)
    about = one.folder / "site.json"
    about.write_text("{}\n")

    class Up(Programs):
        page = "http://127.0.0.1:1"

    with about.open() as reading:
        announce.announce(one, Up(one))
        assert reading.read() == "{}\n", "a new file, not this one written again"
    assert json.loads(about.read_text())["page"] == Up.page


# Ends in order, and slowly, as a database does that writes what it has in memory.
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
    one = site(tmp_path)
    with Programs(one) as programs:
        programs.start(Part("database", "", (sys.executable, "-c", _SLOW), {}, "up", Level.BASE))
        programs.wait_ready(["database"])
    assert (one.logs / "database.log").read_text() == "up\nthe database is shut down\n"
