"""OpenTofu and the OpenStack provider check the modules of deploy/cloud (`make cloud-test` builds both).

The registries that the project uses have no providers for the other clouds. OpenTofu only parses these
modules, and tests/deploy/cloud/test_modules.py checks them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.cloud import machines

TREE = Path(__file__).parents[2]
CLOUD = TREE / "deploy" / "cloud"
BUILT = TREE / "target" / "tofu"
OPENSTACK = "terraform-provider-openstack/openstack"


def tofu(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run OpenTofu in `folder`, with only the built provider."""
    settings = folder / "settings.tofurc"
    settings.write_text(
        f'provider_installation {{\n  dev_overrides {{\n    "{OPENSTACK}" = "{BUILT}"\n  }}\n}}\n'
    )
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TF_CLI_CONFIG_FILE": str(settings),
        "CHECKPOINT_DISABLE": "1",
    }
    assert (BUILT / "tofu").exists(), "OpenTofu is not built: make cloud-test"
    return subprocess.run(
        [BUILT / "tofu", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def openstack(tmp_path: Path) -> Path:
    """A copy of the module, so that OpenTofu can write to it."""
    return Path(shutil.copytree(CLOUD / "openstack", tmp_path / "openstack"))


@pytest.mark.parametrize("cloud", machines.clouds())
def test_the_files_are_in_opentofus_style(tmp_path: Path, cloud: str) -> None:
    done = tofu(tmp_path, "fmt", "-check", "-diff", "-recursive", str(CLOUD / cloud))
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_the_provider_knows_every_argument(openstack: Path) -> None:
    done = tofu(openstack, "validate", "-json")
    assert json.loads(done.stdout)["valid"] is True, done.stdout
    # Validation detects these errors.
    for right, wrong in (("flavor_name = var", "flavour_name = var"), ('direction         = "ingress"', "")):
        path = openstack / "main.tf"
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong, 1))
        done = tofu(openstack, "validate", "-json")
        assert json.loads(done.stdout)["valid"] is False
        path.write_text(text)


def test_the_plan_of_openstack_passes_its_tests(openstack: Path) -> None:
    done = tofu(openstack, "test", "-no-color")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 passed, 0 failed" in done.stdout
