"""deploy/container: the shared secrets of containers, and the services of compose.yaml; no image is built."""

from __future__ import annotations

import shlex
import ssl
import stat
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from cli import main
from deploy.container import make_secrets

TREE = Path(__file__).parents[2]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(
    (TREE / "deploy/container/compose.yaml").read_text(encoding="utf-8")
)["services"]
PRIVATE_KEY = "AIRFLOW__API_AUTH__JWT_PRIVATE_KEY_PATH"
PARTS = ("store", "dashboard", "api-server", "dag-processor", "scheduler", "optout", "worker")


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of secrets."""
    folder = tmp_path_factory.mktemp("secrets")
    make_secrets.make(folder)
    return folder


def test_secrets_are_readable_by_their_owner_only_and_generated_once(secrets: Path) -> None:
    before = {path.name: path.read_text() for path in secrets.iterdir()}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets.iterdir())
    make_secrets.make(secrets)
    assert {path.name: path.read_text() for path in secrets.iterdir()} == before


def test_a_key_without_its_certificate_is_replaced(tmp_path: Path) -> None:
    make_secrets.write(tmp_path, make_secrets.KEY, "of a start that was killed")
    make_secrets.make(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(tmp_path / make_secrets.CHAIN, tmp_path / make_secrets.KEY)


def test_the_dashboard_has_only_its_own_secrets_and_the_reports(secrets: Path, tmp_path: Path) -> None:
    make_secrets.make_for_dashboard(secrets, tmp_path / "own")
    copied = {path.name: path.read_text() for path in (tmp_path / "own").iterdir()}
    assert copied == {name: (secrets / name).read_text() for name in ("store_url", make_secrets.CHAIN)}
    service = SERVICES["dashboard"]
    mounted = dict(volume.removesuffix(":ro").split(":") for volume in service["volumes"])
    assert mounted == {
        "of_dashboard": "/etc/firstflight/secrets",
        "reports": "/var/lib/firstflight/reports",
    }
    assert all(volume.endswith(":ro") for volume in service["volumes"])
    assert service["environment"]["FIRSTFLIGHT_STORE_FILE"] == "/etc/firstflight/secrets/store_url"
    # A volume has the owner of the folder where the image has it.
    image = (TREE / "deploy/container/Containerfile").read_text(encoding="utf-8")
    made = image.partition("install -d ")[2].partition("\nRUN")[0].split()
    targets = {volume.split(":")[1] for volume in SERVICES["secrets"]["volumes"]}
    assert {*targets, "/var/lib/firstflight/reports"} <= set(made)


@pytest.mark.parametrize("name", ["store", "localhost"])
def test_the_stores_certificate_is_valid_for_its_names(secrets: Path, name: str) -> None:
    assert f"@{name}:9440/" in "".join(path.read_text() for path in secrets.glob("store_url*"))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(secrets / make_secrets.CHAIN, secrets / make_secrets.KEY)
    client = ssl.create_default_context(cafile=str(secrets / make_secrets.CHAIN))
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for end in ends * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    assert ends[0].getpeercert()


def test_services_read_secrets_that_are_made(secrets: Path) -> None:
    text = (TREE / "deploy/container/compose.yaml").read_text(encoding="utf-8")
    folder = "/etc/firstflight/secrets/"
    read = {part.split('"')[0].split(",")[0].split()[0] for part in text.split(folder)[1:]}
    assert read and {name.strip("]}") for name in read} <= {path.name for path in secrets.iterdir()}


@pytest.mark.parametrize(
    "service", [name for name in SERVICES if "firstflight " in str(SERVICES[name].get("command"))]
)
def test_commands_and_their_options_exist(service: str) -> None:
    command = SERVICES[service]["command"]
    lines = command[-1].splitlines() if isinstance(command, list) else [command]
    for words in map(shlex.split, lines):
        if words[0] != "firstflight":
            continue
        at: click.Command = main.root
        context = click.Context(at)
        rest = words[1:]
        while isinstance(at, click.Group):
            found = at.get_command(context, rest.pop(0))
            assert found is not None, words
            at = found
        at.make_parser(click.Context(at)).parse_args(rest)


def test_airflow_has_the_settings_of_the_playbook() -> None:
    """Exceptions are a machine's paths, and a secret that the playbook passes in another way."""
    playbook = TREE / "deploy" / "ansible"
    groups = yaml.safe_load((playbook / "group_vars/all.yml").read_text(encoding="utf-8"))
    roles = {
        part: yaml.safe_load((playbook / f"roles/{part}/defaults/main.yml").read_text(encoding="utf-8"))
        for part in ("centre", "vantage")
    }
    one_machine = {
        "PATH",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN",
        "FIRSTFLIGHT_SHARDS",
        "FIRSTFLIGHT_CEILINGS",
    }
    one_machine.add("AIRFLOW__LOGGING__BASE_LOG_FOLDER")
    centre = {**groups["firstflight_airflow"], **roles["centre"]["centre_environment"]}
    worker = {**groups["firstflight_airflow"], **roles["vantage"]["vantage_environment"]}
    for service, wanted in (("scheduler", centre), ("worker", worker)):
        assert wanted.keys() - one_machine <= SERVICES[service]["environment"].keys()
    # The playbook's units name the key that signs tokens and logins; workers have none.
    named = {name for name in SERVICES if PRIVATE_KEY in SERVICES[name].get("environment", {})}
    assert named == {"migrate", "api-server", "dag-processor", "scheduler"}


def test_the_key_that_signs_tokens_is_not_the_workers(secrets: Path) -> None:
    place = Path(SERVICES["api-server"]["environment"][PRIVATE_KEY])
    assert str(place.parent) == "/etc/firstflight/secrets"
    key = load_pem_private_key((secrets / place.name).read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey), "another algorithm than the playbook's"


def test_every_part_of_a_site_runs_and_none_listens_outside() -> None:
    assert set(PARTS) <= SERVICES.keys()
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert ports and all(port.startswith("127.0.0.1:") for port in ports)
