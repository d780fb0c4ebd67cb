"""nginx accepts the settings of deploy/nginx; `make deploy-test` asks what is reachable behind it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jinja2
import pytest

from lab import certificates
from lab.programs import program

TEMPLATES = Path(__file__).parents[2] / "deploy" / "nginx"
VALUES = {
    "firstflight_centre_address": "127.0.0.1",
    "firstflight_dashboard_address": "127.0.0.1",
    "firstflight_contact_url": "https://example.org/contact?a=1&b=2",
    "inventory_hostname": "hamburg",
}


def rendered(name: str) -> str:
    """Return a template as Ansible renders it."""
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    return environment.from_string((TEMPLATES / f"{name}.j2").read_text()).render(VALUES)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with chain.pem and key.pem."""
    folder = tmp_path_factory.mktemp("tls")
    issued = certificates.issue(certificates.make_authority(folder), "machine", ["127.0.0.1"])
    (folder / "chain.pem").write_text(issued.chain.read_text())
    (folder / "key.pem").write_text(issued.key.read_text())
    return folder


@pytest.mark.parametrize("name", ["centre", "dashboard", "contact"])
def test_nginx_accepts_it(tmp_path: Path, authority: Path, name: str) -> None:
    server = rendered(f"{name}.conf").replace("/etc/firstflight/tls", str(authority))
    paths = "".join(
        f"{kind}_temp_path {tmp_path}/t;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (tmp_path / "nginx.conf").write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ access_log off; {paths} {server} }}"
    )
    command = [
        program("nginx", "nginx-light"),
        "-t",
        "-q",
        "-e",
        "stderr",
        "-c",
        str(tmp_path / "nginx.conf"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shown = [line for line in done.stderr.splitlines() if "directive makes sense only if" not in line]
    assert (done.returncode, shown) == (0, [])


def test_three_paths_are_passed_on() -> None:
    passed = [line.split()[1] for line in rendered("centre.conf").splitlines() if "proxy_pass" in line]
    assert passed == ["/edge_worker/v1/", "/execution/", "/firstflight/v1/"]


def test_the_contact_page_escapes_the_address() -> None:
    assert 'href="https://example.org/contact?a=1&amp;b=2"' in rendered("contact.html")
