"""Every sender passes one egress policy, which knows the machine's own addresses.

Downloads contacted the machine's public address from inside a set's namespace, past the outer firewall; the
clock check had no policy. A new socket or HTTP client fails this test until one of two tables lists it.
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import certifi
import pytest

from downloader.clients import aioquic, curl, shared
from downloader.clients.contract import Request
from downloader.option_sets import SETS
from downloader.transfers.session import Limits, Session
from firstflight.egress.permitted import Permitted
from firstflight.errors import FirstflightError, UsageError
from firstflight.run import clock
from firstflight.system import binaries
from scanner.external import qscanner
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[3]
OWN = {4: "192.0.1.7", 6: "2a00::7"}
"""Addresses that are not special: public ones of this machine, in this namespace only."""

# A file that contacts others: the file and the text that pass its packets through the egress policy.
CHECKED = {
    "crawler/files/crawl.py": ("crawler/files/spider.py", "why_not("),
    "crawler/files/fetching/handler.py": ("crawler/files/fetching/wire.py", "self._why_not("),
    "crawler/files/fetching/lookup.py": ("crawler/files/fetching/lookup.py", "policy.check_resolver("),
    "crawler/files/fetching/robots_middleware.py": ("crawler/files/fetching/wire.py", "self._why_not("),
    "crawler/files/spider.py": ("crawler/files/spider.py", "why_not("),
    "crawler/files/fetching/trust.py": ("crawler/files/fetching/wire.py", "self._why_not("),
    "crawler/files/fetching/wire.py": ("crawler/files/fetching/wire.py", "self._why_not("),
    "downloader/clients/aioquic.py": ("downloader/clients/aioquic.py", "shared.why_not("),
    "downloader/clients/curl.py": ("downloader/clients/curl.py", "shared.why_not("),
    "downloader/native/src/socket.rs": ("downloader/native/src/lib.rs", "policy.check("),
    "firstflight/run/clock.py": ("firstflight/run/clock.py", "permitted.why_not("),
    "orchestration/checks/network.py": ("orchestration/checks/network.py", "lists.is_listed("),
    "scanner/external/qscanner.py": ("scanner/external/qscanner.py", "permitted.why_not("),
    "scanner/external/sweep.py": ("scanner/external/zmap.py", "permitted.blocked_ipv4("),
    "scanner/external/zmap.py": ("scanner/external/zmap.py", "permitted.blocked_ipv4("),
    "scanner/native/core/src/sockets/connected/tcp.rs": (
        "scanner/native/core/src/sockets/connected.rs",
        "self.check(address.ip())?",
    ),
    "scanner/native/core/src/sockets/connected/udp.rs": (
        "scanner/native/core/src/sockets/connected.rs",
        "self.check(",
    ),
    "scanner/native/core/src/sockets/connects/socket.rs": (
        "scanner/native/core/src/sockets/connects.rs",
        ".check(to.ip(), domain)",
    ),
    "scanner/native/core/src/sockets/egress/socket.rs": (
        "scanner/native/core/src/sockets/egress.rs",
        ".check(to.ip(), domain)",
    ),
    "scanner/native/core/src/sockets/messages/batch.rs": (
        "scanner/native/core/src/sockets/egress.rs",
        ".check(to.ip(), domain)",
    ),
    "scanner/resolver/query.py": ("scanner/resolver/query.py", "self._lists.look()"),
}
# A file that opens a socket and contacts no measured address, and why it needs no check.
OTHERS = {
    "crawler/https.py": "hosts of lists and tables that the settings name",
    "deploy/superset/start.py": "the site's own database",
    "firstflight/egress/rtnetlink.py": "asks the kernel",
    "firstflight/system/network/tcp_listener.py": "listens",
    "firstflight/run/resolvers.py": "reads resolv.conf",
    "orchestration/airflow/worker.py": "the site's own centre",
    "orchestration/checks/interface.py": "sends to itself on loopback",
    "orchestration/checks/machine.py": "binds ports and sends nothing",
    "orchestration/site/centre_client.py": "the site's own centre",
    "orchestration/site/inputs.py": "the site's own centre",
    "orchestration/site/machine_metrics.py": "the Airflow of this machine",
    "orchestration/site/optout.py": "the site's own centre",
    "scanner/native/core/src/limits/policy/rtnetlink.rs": "asks the kernel",
    "store/clickhouse/connection.py": "a pair of sockets inside the process",
}
# The lab, benchmarks and the testbed send inside namespaces that they make.
IN_NAMESPACES = ("bench/", "deploy/grafana/check/", "lab/", "testbed/")

_PYTHON = re.compile(
    r"\bsocket\.(socket|create_connection|create_server|fromfd|socketpair)\("
    r"|\brequests\.(get|head|post|put|patch|delete|options|request|Session)\b"
    r"|\bhttp\.client\.HTTPS?Connection\b|\burllib\.request\b|\burlopen\b|\burllib3\b"
    r"|\b(aiohttp|httpx|websockets|paramiko|asyncssh|smtplib|ftplib|scapy)\b"
    r"|\bpycurl\.Curl\b|\bopen_(unix_)?connection\(|\bcreate_(datagram_endpoint|connection)\("
    r"|\b(from|import) (twisted|scrapy)\.|\bfrom (twisted|scrapy) import"
    r"|\bdns\.(query|asyncquery|resolver|asyncresolver)\b"
    r"|: str = \"(zmap|zgrab2|qscanner|nmap)\"|\[\"(curl|wget|ping|nc|dig)\""
)
_RUST = re.compile(
    r"\b(UdpSocket|TcpStream|TcpSocket|UnixStream)::(bind|connect|new)\w*\("
    r"|\blibc::(socket|sendto|sendmsg|sendmmsg|connect)\(|\bnet::socket\w*\(|\bsocket2::|\bSocket::new\("
    r"|\b(reqwest|ureq|hyper|tokio::net|mio::net)::"
)
_GO = re.compile(r'"net"|"net/http"|\bquic\.Dial')


def senders() -> Iterator[str]:
    """Yield the source files, relative to the root, that open sockets or use an HTTP client."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.splitlines():
        pattern = {".py": _PYTHON, ".rs": _RUST, ".go": _GO}.get(Path(name).suffix)
        is_test = name.startswith("tests/") or "/tests/" in name or name.endswith("/tests.rs")
        if pattern is None or is_test or "/examples/" in name or name.startswith(IN_NAMESPACES):
            continue
        if not (ROOT / name).is_file():
            continue
        source = (ROOT / name).read_text(encoding="utf-8").partition("#[cfg(test)]")[0]
        lines = (line for line in source.splitlines() if not line.lstrip().startswith(("#", "//")))
        if any(pattern.search(line) for line in lines):
            yield name


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the list of source files is git's")
def test_every_sender_is_known_and_passes_the_policy() -> None:
    found = set(senders())
    new = found - CHECKED.keys() - OTHERS.keys()
    assert not new, f"{sorted(new)} may send: let the egress policy check each address, and list it here"
    assert not CHECKED.keys() - found, "a sender is gone: remove it from CHECKED"
    assert not OTHERS.keys() - found, "a file opens no socket any more: remove it from OTHERS"
    for sender, (place, text) in CHECKED.items():
        assert text in (ROOT / place).read_text(), f"{sender}: {place} asks no policy ({text})"


@pytest.mark.parametrize(
    "line",
    [
        "sock = socket.socket(socket.AF_INET)",
        "requests.get(url)",
        "with urllib.request.urlopen(url) as answer:",
        "await asyncio.open_connection(host, port)",
        "import httpx",
        'children.start(["curl", url])',
    ],
)
def test_the_search_finds_new_senders(line: str) -> None:
    assert _PYTHON.search(line)


@pytest.fixture(scope="module", params=[4, 6])
def own(request: pytest.FixtureRequest) -> Iterator[str]:
    """Add a public address to this namespace, and return it."""
    address = OWN[request.param]
    change = ["dev", "lo"]
    place = f"{address}/{32 if request.param == 4 else 128}"
    subprocess.run(["ip", "addr", "add", place, *change], check=True)
    yield address
    subprocess.run(["ip", "addr", "del", place, *change], check=True)


def request_to(address: str, http: str = "1.1") -> Request:
    return Request(
        url="https://a.test/", host="a.test", ip=address, port=443, path="/", user_agent="test",
        timeout_s=2, max_bytes=1000, roots=certifi.where(), http=http,
    )  # fmt: skip


def quiche_answer(address: str, *arguments: str) -> dict[str, object]:
    """Return the answer of the native client to a request for this address."""
    program = binaries.find("firstflight-quic-download")
    line = request_to(address, "3").line()
    done = subprocess.run(
        [program, *arguments], input=line, capture_output=True, check=True, timeout=PATIENCE_S
    )
    answer: dict[str, object] = json.loads(done.stdout.splitlines()[1])
    return answer


def test_no_sender_contacts_an_address_of_this_machine(own: str, tmp_path: Path) -> None:
    permitted = Permitted([], [])
    assert permitted.why_not(own) == "its address is this machine's"
    for http in ("1.1", "3"):
        assert curl.answer(request_to(own, http), permitted).end == "blocked"
    with (tmp_path / "keys").open("w") as keys:
        assert aioquic._answer(request_to(own, "3"), permitted, keys).end == "blocked"
    assert quiche_answer(own)["end"] == "blocked"
    targets = [qscanner.ScanTarget(own, "a.test", 443)]
    assert qscanner.write_input(targets, permitted, tmp_path / "input.csv") == (0, 1)
    host = f"[{own}]" if ":" in own else own
    with pytest.raises(FirstflightError, match="was not contacted, because its address is this machine's"):
        clock.against_http(f"http://{host}/", None)
    if ":" not in own:
        assert f"{own}/32" in permitted.blocked_ipv4()


def test_no_client_contacts_it_from_inside_a_sets_namespace(tmp_path: Path) -> None:
    """There the kernel takes the address for anybody's; here nobody has it either."""
    elsewhere = "192.0.1.9"
    permitted = shared.permitted([f"own={elsewhere}/32"])
    assert Permitted([], []).why_not(elsewhere) is None
    for http in ("1.1", "3"):
        assert curl.answer(request_to(elsewhere, http), permitted).end == "blocked"
    with (tmp_path / "keys").open("w") as keys:
        assert aioquic._answer(request_to(elsewhere, "3"), permitted, keys).end == "blocked"
    assert quiche_answer(elsewhere, f"own={elsewhere}/32")["end"] == "blocked"
    with pytest.raises(UsageError, match="own=everywhere"):
        shared.permitted(["own=everywhere"])


def test_clients_receive_the_addresses_of_this_namespace(own: str, tmp_path: Path) -> None:
    session = Session([SETS["warmup"]], tmp_path, ["allow-net=127.0.0.0/8"], Limits(), lambda: None)
    assert f"own={own}/{128 if ':' in own else 32}" in session._lists


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("169.254.169.254", "special"),
        ("169.254.7.7", "special"),
        ("224.0.0.1", "special"),
        ("127.3.0.1", "on a list"),
    ],
)
def test_the_clock_check_passes_the_policy(tmp_path: Path, address: str, why: str) -> None:
    listed = tmp_path / "list.conf"
    listed.write_text("127.3.0.0/16\n")
    with pytest.raises(FirstflightError, match=f"was not contacted, because its address is {why}"):
        clock.against_http(f"http://{address}/", None, clock.of_lists([listed], []))


def test_the_clock_check_follows_no_name_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer of a name server was contacted: the check and the request each asked it."""
    answers = iter(["127.0.0.1", "169.254.169.254"])
    asked: list[object] = []
    real = socket.getaddrinfo

    def resolved(host: str, *rest: object, **more: object) -> object:
        if host == "rebinding.test":
            return real(next(answers), *rest, **more)  # type: ignore[arg-type]
        asked.append(host)
        return real(host, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    with pytest.raises(FirstflightError, match="does not answer"):
        clock.against_http("http://rebinding.test:9/", None)
    assert "169.254.169.254" not in asked and next(answers) == "169.254.169.254"
