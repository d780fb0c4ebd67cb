"""A site's machines, from vantage_points.toml for Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.inventory import inventory
from firstflight.errors import UsageError
from lab.site import plan
from orchestration.site import vantage_points

TREE = Path(__file__).parents[3]
ANSIBLE = TREE / "deploy" / "ansible"
CENTRE = '[centre]\nssh_host = "centre.example.org"\n'
VANTAGE = '[[vantage]]\nname = "a"\ncity = "A"\nqueue = "a"\n'
GOOD = f'{CENTRE}{VANTAGE}ssh_host = "a.example.org"\n'


def of(folder: Path, text: str) -> dict[str, dict[str, object]]:
    """Return the inventory for a vantage_points.toml with that text."""
    path = folder / vantage_points.FILE
    path.write_text(text)
    return inventory(vantage_points.load(path), folder)


def test_everything_is_at_the_centre_unless_named(tmp_path: Path) -> None:
    found = of(tmp_path, GOOD)
    for part in ("centre", "store", "dashboard"):
        assert found[f"site_{part}"] == {"hosts": ["centre"]}
        assert found["all"]["vars"][f"firstflight_{part}_address"] == "centre.example.org"  # type: ignore[index]
    assert found["site_vantage_points"] == {"hosts": ["a"]}


def test_machines_of_their_own(tmp_path: Path) -> None:
    more = '[store]\nssh_host = "10.0.0.2"\naddress = "store.example.org"\n'
    more += '[dashboard]\nssh_host = "10.0.0.2"\naddress = "www.example.org"\n'
    text = (
        f'{more}{GOOD}cloud = "x"\nregion = "y-1"\ncontact_url = "https://example.org/contact"\nshards = 2\n'
    )
    found = of(tmp_path, text)
    assert found["site_store"] == found["site_dashboard"] == {"hosts": ["store"]}
    variables = found["all"]["vars"]
    assert variables["firstflight_store_address"] == "store.example.org"  # type: ignore[index]
    assert variables["firstflight_dashboard_address"] == "www.example.org"  # type: ignore[index]
    assert found["_meta"]["hostvars"] == {
        "centre": {"ansible_host": "centre.example.org"},
        "store": {"ansible_host": "10.0.0.2"},
        "dashboard": {"ansible_host": "10.0.0.2"},
        "a": {
            "ansible_host": "a.example.org",
            "firstflight_shards": 2,
            "firstflight_cloud": "x",
            "firstflight_region": "y-1",
            "firstflight_contact_url": "https://example.org/contact",
        },
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (VANTAGE, r"has no \[centre\]"),
        (CENTRE + VANTAGE, "vantage point a has no ssh_host"),
        (GOOD.replace('name = "a"', 'name = "store"'), "no vantage point may be called store"),
        (GOOD.replace("a.example.org", "centre.example.org"), "vantage point a is on the machine of centre"),
        (GOOD.replace(VANTAGE, f'[store]\nssh_host = "a.example.org"\n{VANTAGE}'), "on the machine of store"),
        (GOOD + VANTAGE.replace('"a"', '"b"') + 'ssh_host = "a.example.org"\n', "b is on the machine of a,"),
        (GOOD.replace("a.example.org", "-oProxyCommand=x"), r"vantage\.0\.ssh_host"),
        (GOOD + 'contact_url = "javascript:x"\n', r"vantage\.0\.contact_url"),
        (GOOD + "contact_url = 'https://x/\"><script>'\n", r"vantage\.0\.contact_url"),
        (GOOD.replace("ssh_host = \"centre", "host = \"centre"), r"centre\.host"),
    ],
)  # fmt: skip
def test_faults_are_one_sentence(tmp_path: Path, text: str, shown: str) -> None:
    with pytest.raises(UsageError, match=shown):
        of(tmp_path, text)


def test_the_script_answers_ansible(tmp_path: Path) -> None:
    of(tmp_path, GOOD)
    environment = {**os.environ, "FIRSTFLIGHT_SITE": str(tmp_path), "FIRSTFLIGHT_PYTHON": sys.executable}
    command = [ANSIBLE / "inventory"]
    done = subprocess.run([*command, "--list"], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["_meta"]["hostvars"]["a"]["ansible_host"] == "a.example.org"
    environment["FIRSTFLIGHT_SITE"] = str(tmp_path / "none")
    done = subprocess.run([*command, "--list"], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("inventory: cannot read ") and done.stderr.count("\n") == 1


def test_the_labs_site_says_nothing_of_machines() -> None:
    points = vantage_points.load(plan.HERE / vantage_points.FILE)
    assert points.centre is points.store is points.dashboard is None
