"""nginx accepts the settings of deploy/nginx and forwards each request to the right service."""

from __future__ import annotations

import http.client
import re
import ssl
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import jinja2
import pytest
import yaml

from lab.hosts import certificates
from lab.system.programs import program
from tests.waiting import until

TREE = Path(__file__).parents[3]
TEMPLATES = TREE / "deploy" / "nginx"
ROLES = TREE / "deploy" / "ansible" / "roles"
VALUES = {
    "firstflight_centre_address": "127.0.0.1",
    "firstflight_dashboard_address": "127.0.0.1",
    "firstflight_one_name": True,
    "firstflight_contact_url": "https://example.org/contact?a=1&b=2",
    "inventory_hostname": "hamburg",
    "firstflight_acme": False,
    "groups": {"site_dashboard": ["hamburg"]},
}
# No other test uses this address: servers of other tests in this process may have the same ports elsewhere.
ADDRESS = "127.0.0.9"
TWO_NAMES = VALUES | {"firstflight_dashboard_address": "www.example.org", "firstflight_one_name": False}
# A machine's layout -> its variables and the roles that the playbook applies.
LAYOUTS: dict[str, tuple[dict[str, object], Sequence[str]]] = {
    "one name": (VALUES, ("centre", "dashboard")),
    "two names": (TWO_NAMES, ("centre", "dashboard")),
    "centre": (TWO_NAMES, ("centre",)),
    "dashboard": (TWO_NAMES, ("dashboard",)),
    "vantage point": (TWO_NAMES, ("vantage",)),
    **{
        f"{name} with ACME": (
            values | {"firstflight_acme": True, "firstflight_names": names},
            ("common", *roles),
        )
        for name, values, names, roles in (
            ("one name", VALUES, ["127.0.0.1"], ("centre", "dashboard")),
            ("two names", TWO_NAMES, ["127.0.0.1", "www.example.org"], ("centre", "dashboard")),
            ("vantage point", TWO_NAMES, ["hamburg.example.org"], ("vantage",)),
        )
    },
}
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    undefined=jinja2.StrictUndefined,
    keep_trailing_newline=True,
    trim_blocks=True,
)
ENVIRONMENT.filters["bool"] = bool  # Ansible's own


def rendered(name: str, values: dict[str, object] = VALUES) -> str:
    """Return a template as Ansible renders it."""
    return ENVIRONMENT.get_template(f"{name}.j2").render(values)


def written(values: dict[str, object], roles: Sequence[str]) -> str:
    """Return the content of /etc/nginx/conf.d after the roles, in nginx's order."""
    found: dict[str, str] = {}
    for role in roles:
        for path in sorted((ROLES / role / "tasks").glob("*.yml")):
            for task in yaml.safe_load(path.read_text()):
                arguments = task.get("ansible.builtin.template") or task.get("ansible.builtin.file") or {}
                place = arguments.get("dest") or arguments.get("path") or ""
                if not place.startswith("/etc/nginx/conf.d/"):
                    continue
                if not ENVIRONMENT.compile_expression(task.get("when", "true"))(**values):
                    continue
                found.pop(place, None)
                if "src" in arguments:
                    found[place] = rendered(Path(arguments["src"]).stem, values)
    assert found
    return "".join(found[place] for place in sorted(found))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with chain.pem and key.pem."""
    folder = tmp_path_factory.mktemp("tls")
    issued = certificates.issue(certificates.make_authority(folder), "machine", ["127.0.0.1"])
    (folder / "chain.pem").write_text(issued.chain.read_text())
    (folder / "key.pem").write_text(issued.key.read_text())
    return folder


def nginx(folder: Path, authority: Path, servers: str) -> list[str]:
    """Return the command that starts nginx with these servers, at ADDRESS and ::1."""
    servers = servers.replace("/etc/firstflight/tls", str(authority)).replace("listen [::]:", "listen [::1]:")
    servers = re.sub(r"listen (\d+)(?=[ ;])", rf"listen {ADDRESS}:\1", servers)
    paths = "".join(
        f"{kind}_temp_path {folder}/t;" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "nginx.conf").write_text(
        f"pid {folder}/pid; daemon off; master_process off; error_log stderr; events {{}}"
        f"http {{ access_log off; {paths} {servers} }}"
    )
    return [program("nginx", "nginx-light"), "-e", "stderr", "-c", str(folder / "nginx.conf")]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nginx_has_no_remark(tmp_path: Path, authority: Path, layout: str) -> None:
    command = nginx(tmp_path, authority, written(*LAYOUTS[layout]))
    done = subprocess.run([*command, "-t", "-q"], capture_output=True, text=True, check=False)
    # nginx from 1.25.1 on (Debian 13) prefers the directive `http2`, which Debian 12's does not have.
    expected = ("directive makes sense only if", 'the "listen ... http2" directive is deprecated')
    shown = [line for line in done.stderr.splitlines() if not any(text in line for text in expected)]
    assert (done.returncode, shown) == (0, [])


@pytest.fixture(scope="module", params=["centre", "one name"])
def layout(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, authority: Path
) -> Iterator[str]:
    """nginx for a layout, with upstream servers that answer with their name and the requested URI."""
    folder = tmp_path_factory.mktemp("nginx")
    behind = "".join(
        f'server {{ listen 127.0.0.1:{port}; return 200 "{who} $request_uri"; }}\n'
        for port, who in ((8080, "centre"), (8000, "dashboard"))
    )
    command = nginx(folder, authority, written(*LAYOUTS[request.param]) + behind)
    with (folder / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        until((folder / "pid").is_file, (folder / "log").read_text)
        yield request.param
        process.terminate()


@pytest.mark.parametrize(
    ("path", "at_the_centre", "under_one_name"),
    [
        ("/", None, "dashboard /"),
        ("/api/v2/version", None, "dashboard /api/v2/version"),
        ("/queries/a.csv?x=1", None, "dashboard /queries/a.csv?x=1"),
        ("/metrics", None, None),
        ("/edge_worker/v1/health", *["centre /edge_worker/v1/health"] * 2),
        ("/execution/health", *["centre /execution/health"] * 2),
        ("/firstflight/v1/optout?nonce=a", *["centre /firstflight/v1/optout?nonce=a"] * 2),
        # nginx passes to the centre the same normalised path that it matched.
        ("/x/../execution/xcoms/", *["centre /execution/xcoms/"] * 2),
        ("/api/v2/variables/%2e%2e/..%2F../execution/dags/a", *["centre /execution/dags/a"] * 2),
        ("//execution//xcoms//x", *["centre /execution/xcoms/x"] * 2),
        ("/execution/../api/v2/version", None, "dashboard /execution/../api/v2/version"),
        ("/execution/xcoms/%41%3A+%2B%25%3F?a=%2F", *["centre /execution/xcoms/A:++%25%3F?a=%2F"] * 2),
        ("/execution/task-instances/a/run", *["centre /execution/task-instances/a/run"] * 2),
        (
            "/execution/task-reschedules/a/start_date",
            *["centre /execution/task-reschedules/a/start_date"] * 2,
        ),
        # No task of a vantage point needs these paths, so even a task's token opens none of them.
        ("/execution/", None, None),
        ("/execution/variables/keys", None, None),
        ("/execution/xcoms/../variables/keys", None, None),
        ("/execution/xcoms/%2e%2e/connections/a", None, None),
        ("/execution/dag-runs/quic_scan/a", None, None),
        ("/execution/health/a", None, None),
    ],
)
def test_who_answers(layout: str, path: str, at_the_centre: str | None, under_one_name: str | None) -> None:
    answer = under_one_name if layout == "one name" else at_the_centre
    status, body = ask(path)
    assert (status, body) == (200, answer) if answer else status == 404


@pytest.mark.parametrize("path", ["/execution/xcoms", "/edge_worker/v1", "/firstflight/v1"])
def test_no_redirection_leads_to_the_host_that_a_client_names(layout: str, path: str) -> None:  # noqa: ARG001
    connection = http.client.HTTPSConnection(
        ADDRESS, 443, context=ssl._create_unverified_context(), timeout=60
    )
    connection.request("GET", path, headers={"Host": "evil.test"})
    answer = connection.getresponse()
    assert (answer.status, answer.headers["Location"]) in ((301, f"{path}/"), (200, None))
    connection.close()


def test_the_host_that_a_client_names_is_not_passed_on() -> None:
    for layout in ("one name", "two names"):
        assert "$host" not in written(*LAYOUTS[layout])


def test_the_labs_site_passes_the_same_paths_as_they_were_compared() -> None:
    text = (TREE / "lab" / "site" / "nginx.conf.template").read_text()
    passed = re.findall(r"location (.+) \{ proxy_pass http://127\.0\.0\.1:\$\{port\}(\S*); \}", text)
    assert all(place.removeprefix("= ") == path for place, path in passed)
    written_paths = re.findall(r"location (= /\S+|/\S+/) \{\s+# With", rendered("centre_paths.conf"))
    assert written_paths == [place for place, _ in passed]


def ask(path: str) -> tuple[int, str]:
    """Request a path without normalising it; return status and body."""
    connection = http.client.HTTPSConnection(
        ADDRESS, 443, context=ssl._create_unverified_context(), timeout=60
    )
    connection.request("GET", path)
    answer = connection.getresponse()
    found = answer.status, answer.read().decode()
    connection.close()
    return found


def test_the_authority_finds_the_challenge_and_people_the_dashboard(tmp_path: Path, authority: Path) -> None:
    """With ACME, at port 80 of each name."""
    (tmp_path / "acme" / ".well-known" / "acme-challenge").mkdir(parents=True)
    (tmp_path / "acme" / ".well-known" / "acme-challenge" / "token").write_text("answer")
    servers = written(*LAYOUTS["two names with ACME"]).replace(
        "/var/lib/firstflight-acme", f"{tmp_path}/acme"
    )
    command = nginx(tmp_path, authority, servers)
    address = "127.0.0.10"  # the other servers of this module may run
    (tmp_path / "nginx.conf").write_text((tmp_path / "nginx.conf").read_text().replace(ADDRESS, address))
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            until((tmp_path / "pid").is_file, (tmp_path / "log").read_text)
            for name, at_root in (("127.0.0.1", 404), ("www.example.org", 301)):
                answers = {}
                for path in ("/.well-known/acme-challenge/token", "/a"):
                    connection = http.client.HTTPConnection(address, 80, timeout=60)
                    connection.request("GET", path, headers={"Host": name})
                    answer = connection.getresponse()
                    answers[path] = answer.status, answer.headers["Location"], answer.read()
                    connection.close()
                assert answers["/.well-known/acme-challenge/token"] == (200, None, b"answer")
                assert answers["/a"][0] == at_root
            assert answers["/a"][1] == "https://www.example.org/a"
        finally:
            process.terminate()


def test_the_contact_page_escapes_the_address() -> None:
    assert 'href="https://example.org/contact?a=1&amp;b=2"' in rendered("contact.html")
