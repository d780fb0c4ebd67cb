"""A hostile centre: it cannot write outside its run, name a program, or fill the disk."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight.egress import lab
from firstflight.errors import FirstflightError, UsageError
from firstflight.run import clock
from firstflight.run.run import Run
from firstflight.system.path_names import UnsafeName
from orchestration.site import ceilings, inputs
from orchestration.site import offer as offers
from orchestration.site.ceilings import Ceilings
from orchestration.site.centre_client import CentreUnreachable
from orchestration.site.offer import BadOffer
from tests.airflow.test_inputs import HAMBURG, centre_files, open_run
from tests.attack.servers.evil_https import EvilHost, endless, serving, whole

Listing = dict[str, Any]
PAYLOAD = b"* * * * * root sh -c evil\n"
HASH = hashlib.sha256(PAYLOAD).hexdigest()


class CentreWorld:
    """An honest run at a centre, the vantage point that fetches it, and the files around its runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "honest").mkdir()
        centre_files(folder / "honest")
        self.folder = folder
        self.run = open_run(folder / "honest", 30_000)
        self.listing: Listing = json.loads((self.run.path / "inputs.json").read_text())
        self.around = folder / "vantage"
        monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(self.around / "pending" / "runs"))

    def answer(self, listing: Listing, extra: dict[str, bytes]) -> Callable[[str], Iterable[bytes]]:
        """The centre's interface with a changed list, and changed files."""
        base = f"/firstflight/v1/runs/{self.run.id}/inputs"

        def answer(path: str) -> Iterable[bytes]:
            name = unquote(path.removeprefix(base).removeprefix("/"))
            if not name:
                return [whole(json.dumps(listing).encode())]
            if name in extra:
                return [whole(extra[name])]
            return [
                whole((self.run.path / name).read_bytes() if (self.run.path / name).is_file() else PAYLOAD)
            ]

        return answer

    def fetch(self, answer: Callable[[str], Iterable[bytes]]) -> tuple[EvilHost, Run]:
        """The vantage point's own fetch, over TLS."""
        with serving(self.folder, answer) as host, pytest.MonkeyPatch.context() as patch:
            patch.setenv("REQUESTS_CA_BUNDLE", str(host.authority))
            return host, inputs.fetch(self.run.id, HAMBURG, host.url, lambda: "token")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CentreWorld:
    return CentreWorld(tmp_path, monkeypatch)


def test_a_valid_centre_is_accepted(world: CentreWorld) -> None:
    """The unchanged run is accepted, so the refusals below have their stated causes."""
    _, run = world.fetch(world.answer(world.listing, {}))
    assert run.layout.targets.read_bytes() == world.run.layout.targets.read_bytes()
    assert run.settings.vantage[0].name == "hamburg"


NAMES = [
    "../../x",
    "../x",
    "targets/../../../x",
    "targets/..",
    "/etc/cron.d/x",
    "//x",
    "targets//x",
    "./x",
    "targets/./x",
    "targets\\..\\..\\x",
    "..\\x",
    "targets/x\0y",
    "targets/x\ny",
    "targets/\x1b[2Jx",
    "targets/\x9bx",
    "targets/\ud800",
    "",
    "targets",
    "targets/",
    "x",
    "manifest.json",
    "stop",
    "inputs.json",
    "targets/lock",
    "lists/x.part",
    "load/report.json",
    "hamburg/1/probe/quic_probe.parquet",
    "targets/deeper/x",
    "targets/" + "x" * 300,
    7,
    None,
    ["targets/x"],
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_that_is_no_input_is_refused_before_anything_is_written(
    world: CentreWorld, name: object
) -> None:
    listing = copy.deepcopy(world.listing)
    listing["files"].insert(0, {"name": name, "bytes": len(PAYLOAD), "sha256": HASH})
    with pytest.raises(BadOffer, match="are refused, nothing was fetched: files") as refused:
        world.fetch(world.answer(listing, {}))
    assert "\n" not in str(refused.value) and str(refused.value).isprintable()
    assert not world.around.exists()


HASHES = [
    "../../../../x",
    "x",
    "",
    HASH.upper(),
    HASH + "0",
    HASH[:-1],
    HASH + "\n",
    HASH[:-1] + "\u0660",
    None,
    1,
]


@pytest.mark.parametrize("sha256", HASHES, ids=ascii)
def test_an_invalid_hash_is_refused_before_anything_is_written(world: CentreWorld, sha256: object) -> None:
    listing = copy.deepcopy(world.listing)
    listing["files"].insert(0, {"name": "targets/x", "bytes": len(PAYLOAD), "sha256": sha256})
    with pytest.raises(BadOffer, match="sha256"):
        world.fetch(world.answer(listing, {}))
    assert not world.around.exists()


def _changed(**changes: Any) -> Callable[[Listing], object]:
    return lambda listing: listing["manifest"].update(changes)


@pytest.mark.parametrize(
    "change",
    [
        _changed(id="20260101T000000Z-000000"),
        _changed(id="../../x"),
        _changed(repetitions=10**9),
        _changed(repetitions="1"),
        _changed(name="../x"),
        _changed(started_at="now"),
        _changed(cid_key="--allow-net=0.0.0.0/0"),
        _changed(seed=-1),
        lambda listing: listing.pop("files"),
        lambda listing: listing.update(files={"name": "x"}),
        lambda listing: listing["files"].extend(listing["files"]),
        lambda listing: listing["files"][0].update(bytes=-1),
        lambda listing: listing["files"][0].update(bytes=1 << 50),
        lambda listing: listing.update(more=1),
    ],
)
def test_a_list_that_does_not_hold_together_is_refused(
    world: CentreWorld, change: Callable[[Listing], object]
) -> None:
    listing = copy.deepcopy(world.listing)
    change(listing)
    with pytest.raises(BadOffer, match="are refused, nothing was fetched"):
        world.fetch(world.answer(listing, {}))
    assert not world.around.exists()


@pytest.mark.parametrize("run_id", ["../../x", "..", "/etc", "20260101T000000Z-00000g", "", "a\0b"])
def test_an_invalid_run_id_is_not_requested(world: CentreWorld, run_id: str) -> None:
    with pytest.raises(UnsafeName):
        inputs.fetch(run_id, HAMBURG, "https://127.0.0.1:9", lambda: "token")
    assert inputs.published(run_id) is None
    assert not world.around.exists()


def _settings(
    world: CentreWorld, change: Callable[[dict[str, Any]], object]
) -> tuple[Listing, dict[str, bytes]]:
    stored = json.loads((world.run.path / "settings.json").read_text())
    change(stored)
    content = json.dumps(stored).encode()
    listing = copy.deepcopy(world.listing)
    (entry,) = [entry for entry in listing["files"] if entry["name"] == "settings.json"]
    entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    return listing, {"settings.json": content}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s["vantage"][0].update(command=["sh", "-c", "evil"]), "name a program"),
        (lambda s: s["vantage"][0].update(program="/tmp/evil"), "name a program"),
        (lambda s: s["campaign"].update(before_repetition=["sh"]), "name a program"),
        # The prober's messages would quote its lines, and the task's log sends them to the centre.
        (lambda s: s["probe"].update(blocklist=["/etc/shadow"]), "is not among the inputs"),
        (lambda s: s["probe"].update(optout=["../../../secret"]), "is not among the inputs"),
        (lambda s: s["probe"].update(blocklist=["targets/targets.parquet"]), "is not among the inputs"),
        (lambda s: s.update(handshake={"verify": "chain", "roots": "/etc/shadow"}), "handshake.roots names"),
        (lambda s: s.update(crawl={"roots": "/etc/shadow"}), "crawl.roots names"),
        (lambda s: s.update(download={"roots": "../../secret"}), "download.roots names"),
        (lambda s: s.update(download={"targets": "/etc/shadow"}), "download.targets names"),
        (lambda s: s["vantage"][0].update(name="../../x"), "vantage.0.name"),
        (lambda s: s["vantage"][0].update(name="lists"), "cannot be called lists"),
        (lambda s: s.pop("vantage"), "there is no"),
        (lambda s: s.update(probe=7), "probe"),
        (lambda s: s["probe"].update(allow_net=["0.0.0.0/0"]), "allow_net"),
    ],
)
def test_settings_name_no_program_and_no_file_of_this_place(
    world: CentreWorld, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    with pytest.raises(BadOffer, match=says) as refused:
        world.fetch(world.answer(*_settings(world, change)))
    assert "\n" not in str(refused.value)
    pending = Run(world.around / "pending" / "runs" / world.run.id)
    assert not (pending.path / "manifest.json").exists() and not (pending.path / "settings.json").exists()
    assert Run.all() == []


SCAN: dict[str, Any] = {
    "campaign": {"contact": "noc@example.org"},
    "scan": {"enabled": True, "networks": ["192.0.2.0/25"], "ownership": "the centre"},
}
ELSEWHERE = HAMBURG.model_copy(update={"resolver": None})


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A vantage point outside of the lab, where the numbers of docs/ethics.md hold."""
    monkeypatch.setattr(lab, "is_lab", lambda: False)
    monkeypatch.delenv(ceilings.VARIABLE, raising=False)


def _asking(changes: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    def change(stored: dict[str, Any]) -> None:
        for section, values in changes.items():
            if section == "vantage":
                stored["vantage"][0].update(values)
            else:
                stored.setdefault(section, {}).update(values)

    return change


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"probe": {"allow_net": ["10.0.0.0/8"]}}, "allow_net has 10.0.0.0/8"),
        ({"probe": {"allow_net": ["127.0.0.1/32"]}}, "allow_net has 127.0.0.1/32"),
        ({"probe": {"allow_net": ["198.18.0.0/15", "fd00::/8"]}}, "allow_net has fd00::/8"),
        ({"probe": {"port": 22}}, "probe.port is 22"),
        ({"tcp_options": {"port": 22}}, "tcp_options.port is 22"),
        ({"resolve": {"port": 22}}, "not 22"),
        ({"resolve": {"resolvers": ["9.9.9.9#22"]}}, "not 22"),
        ({"resolve": {"resolver": "169.254.169.254"}}, "169.254.169.254 is in a private network"),
        ({"resolve": {"resolvers": ["10.0.0.1,weight=2"]}}, "10.0.0.1 is in a private network"),
        ({"vantage": {"ports": "1024-1100"}}, "the source ports 1024-1100 are not within"),
        ({"vantage": {"rate": 100_000}}, "rate of probes is 100000"),
        ({"vantage": {"rate": None}, "probe": {"rate": 100_000}}, "rate of probes is 100000"),
        ({"probe": {"per_address_rate": 0}}, "per_address_rate is 0"),
        ({"probe": {"per_address_rate": 1.5}}, "per_address_rate is 1.5"),
        ({"probe": {"per_prefix_rate": 0}}, "per_prefix_rate is 0"),
        ({"probe": {"per_prefix_rate": 1e6}}, "per_prefix_rate is 1e"),
        ({"probe": {"attempts": 5}}, "attempts is 5"),
        ({"handshake": {"rate": 51}}, "handshake.rate is 51"),
        ({"calibrate": {"rate": 51}}, "calibrate.rate is 51"),
        ({"calibrate": {"gap_s": 0}}, "calibrate.gap_s is 0"),
        (SCAN, "scan.networks has 192.0.2.0/25, which is not in the scan_networks"),
        ({**SCAN, "scan": SCAN["scan"] | {"rate": 101}}, "scan.rate is 101"),
        ({"tcp_options": {"rate": 1000}}, "tcp_options.rate is 1000"),
        ({"tcp_options": {"attempts": 10}}, "tcp_options.attempts is 10"),
        ({"resolve": {"rate": 0}}, "resolve.rate is 0"),
        ({"resolve": {"rate": 1e5}}, "resolve.rate is 100000"),
        ({"download": {"max_bytes": 1 << 30}}, "download.max_bytes"),
        ({"download": {"pause_s": 0}}, "download.pause_s is 0"),
        ({"download": {"run_pause_s": 1}}, "download.run_pause_s is 1"),
        ({"watch": {"minute_s": 0.5}}, "watch.minute_s is 0.5"),
        ({"watch": {"owned_per_minute": 600}}, "watch.owned_per_minute is 600"),
        ({"backoff": {"enabled": False}}, "backoff.enabled is false"),
        ({"backoff": {"factor": 1e9}}, "backoff.factor is 1e"),
        ({"backoff": {"least_share": 0.99}}, "backoff.least_share is 0.99"),
        ({"backoff": {"least_probes": 10**9}}, "backoff.least_probes is 1e"),
        ({"backoff": {"baseline_s": 86_400}}, "backoff.baseline_s is 86400"),
        ({"backoff": {"resume_after_s": 1}}, "backoff.resume_after_s is 1"),
        ({"campaign": {"shared_limits": False}}, "shared_limits is false"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("outside")
def test_settings_above_the_ceilings_are_refused(
    world: CentreWorld, changes: dict[str, Any], says: str
) -> None:
    """Private networks, port 22, a rate of 100,000, limits 0 and no backoff were accepted."""
    listing, extra = _settings(world, _asking(changes))
    offer = offers.check(listing, world.run.id)
    with pytest.raises(BadOffer, match=re.escape(says)) as refused:
        offers.check_settings(
            json.loads(extra["settings.json"]), offer, world.run.path, ELSEWHERE, Ceilings()
        )
    assert "\n" not in str(refused.value)


@pytest.mark.usefixtures("outside")
def test_settings_within_docs_ethics_are_accepted(world: CentreWorld) -> None:
    """So the refusals above have their stated causes."""
    _, run = world.fetch(world.answer(*_settings(world, _asking({}))))
    assert run.settings.probe.allow_net == ("198.18.0.0/15",)


@pytest.mark.parametrize(
    ("text", "changes", "is_refused"),
    [
        ('scan_networks = ["192.0.2.0/24"]', SCAN, False),
        ('scan_networks = ["192.0.2.0/26"]', SCAN, True),
        ("network_scan_rate = 10", {"scan": {"rate": 11}}, False),  # no scan is enabled
        ('scan_networks = ["192.0.2.0/24"]\nnetwork_scan_rate = 10', SCAN, True),
        ('networks = ["10.1.0.0/16"]', {"probe": {"allow_net": ["10.1.2.0/24"]}}, False),
        ('networks = ["10.1.0.0/16"]', {"probe": {"allow_net": ["10.0.0.0/8"]}}, True),
        ("networks = []", {"probe": {"allow_net": ["198.18.0.0/15"]}}, True),
        ("ports = [443, 8443]", {"probe": {"port": 8443}}, False),
        ("ports = [8443]", {"probe": {"port": 443}}, True),
        ("rate = 1000", {"vantage": {"rate": 900}}, False),
        ("rate = 10", {}, True),
        ("per_prefix_rate = 2", {}, True),
        ("downloads = false", {"download": {"enabled": True}}, True),
        ("handshakes = false", {"handshake": {"enabled": True}}, True),
        ("handshakes = false", {"calibrate": {"enabled": True}}, True),
    ],
)
@pytest.mark.usefixtures("outside")
def test_a_vantage_point_has_ceilings_of_its_own(
    world: CentreWorld,
    monkeypatch: pytest.MonkeyPatch,
    text: str,
    changes: dict[str, Any],
    is_refused: bool,
) -> None:
    path = world.folder / "ceilings.toml"
    path.write_text(text)
    monkeypatch.setenv(ceilings.VARIABLE, str(path))
    listing, extra = _settings(world, _asking(changes))
    offer = offers.check(listing, world.run.id)
    most = ceilings.of_this_machine()

    def check() -> object:
        stored = json.loads(extra["settings.json"])
        return offers.check_settings(stored, offer, world.run.path, HAMBURG, most)

    if is_refused:
        with pytest.raises(BadOffer, match=r"docs/reference/ceilings\.md"):
            check()
    else:
        check()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("per_address_rate = 2", "per_address_rate"),
        ("per_prefix_rate = 0", "per_prefix_rate"),
        ("handshake_rate = 51", "handshake_rate"),
        ('networks = ["0.0.0.0/0"]', "networks"),
        ("more = 1", "more: no such setting"),
        ("rate = ", "is not TOML"),
        (None, "cannot read"),
        ("empty", "is empty"),
    ],
)
def test_a_file_that_permits_more_than_docs_ethics_or_is_broken_permits_nothing(
    world: CentreWorld, monkeypatch: pytest.MonkeyPatch, text: str | None, says: str
) -> None:
    path = world.folder / "ceilings.toml"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv(ceilings.VARIABLE, "" if text == "empty" else str(path))
    with pytest.raises(UsageError, match=says):
        world.fetch(world.answer(world.listing, {}))
    assert Run.all() == []


@pytest.mark.usefixtures("outside")
def test_no_host_of_the_centres_choice_is_asked_for_the_time(world: CentreWorld) -> None:
    """169.254.169.254 was."""
    evil = {"clock": {"reference": "http://169.254.169.254/latest/meta-data"}}
    host, run = world.fetch(world.answer(*_settings(world, _asking(evil))))
    assert run.settings.clock.reference == f"{host.url}/firstflight/v1/"


@pytest.mark.parametrize("address", ["169.254.169.254", "[fd00:ec2::254]", "168.63.129.16"])
def test_the_clock_check_contacts_no_service_of_a_platform(address: str) -> None:
    with pytest.raises(FirstflightError, match="was not contacted"):
        clock.against_http(f"http://{address}/", None)


def _with_downloads(world: CentreWorld, *, crawled: bool, url: str) -> tuple[Listing, dict[str, bytes]]:
    """A run with one file to download, from a list or as the crawl found it."""
    name = "crawl/download_file.parquet" if crawled else "lists/files.csv"
    changes = {} if crawled else {"download": {"targets": name}}
    listing, extra = _settings(world, _asking(changes))
    if crawled:
        path = world.folder / "found.parquet"
        pq.write_table(pa.table({"url": [None, url], "domain": ["a.test", "b.test"]}), path)
        content = path.read_bytes()
    else:
        content = f"url,ip\n{url},\n".encode()
    sha256 = hashlib.sha256(content).hexdigest()
    listing["files"].append({"name": name, "bytes": len(content), "sha256": sha256})
    return listing, extra | {name: content}


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("crawled", [True, False], ids=["crawl", "list"])
@pytest.mark.parametrize(
    ("url", "is_refused"),
    [("https://www.example.org/f", False), ("https://www.example.org:22/f", True), ("gopher://x", False)],
)
def test_files_are_downloaded_from_permitted_ports_alone(
    world: CentreWorld, crawled: bool, url: str, is_refused: bool
) -> None:
    listing, extra = _with_downloads(world, crawled=crawled, url=url)
    if is_refused:
        with pytest.raises(BadOffer, match="URLs with port 22, which is not"):
            world.fetch(world.answer(listing, extra))
        run_folder = world.around / "pending" / "runs" / world.run.id
        assert Run.all() == [] and not (run_folder / listing["files"][-1]["name"]).exists()
    else:
        world.fetch(world.answer(listing, extra))


@pytest.mark.parametrize("files", [1000, 3])
def test_files_of_terabytes_are_refused(world: CentreWorld, files: int) -> None:
    """1,000 files of 4 GiB each were a permitted list."""
    listing = copy.deepcopy(world.listing)
    listing["files"] = [{"name": f"lists/{n}", "bytes": 4 << 30, "sha256": f"{n:064x}"} for n in range(files)]
    with pytest.raises(BadOffer, match="a run may have at most 8589934592"):
        world.fetch(world.answer(listing, {}))
    assert not world.around.exists()


def test_files_never_take_more_than_half_of_the_free_disk(
    world: CentreWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(entry["bytes"] for entry in world.listing["files"])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2 * needed - 2))
    with pytest.raises(BadOffer, match="more than half of the"):
        world.fetch(world.answer(world.listing, {}))
    assert Run.all() == []


def test_a_run_without_settings_is_refused(world: CentreWorld) -> None:
    listing = copy.deepcopy(world.listing)
    listing["files"] = [entry for entry in listing["files"] if entry["name"] != "settings.json"]
    with pytest.raises(BadOffer, match=r"settings\.json is not among them"):
        world.fetch(world.answer(listing, {}))
    assert Run.all() == []


def test_settings_of_this_machine_are_not_taken_from_the_centre(world: CentreWorld) -> None:
    def change(stored: dict[str, Any]) -> None:
        stored["network"]["ca_bundle"] = "/tmp/evil.pem"
        stored["store"]["url"] = "clickhouse://evil.test/x"
        stored["centre"]["command"] = ["sh", "-c", "evil"]

    _, run = world.fetch(world.answer(*_settings(world, change)))
    assert run.settings.network.ca_bundle is None and run.settings.store.url is None
    assert run.settings.centre.command == ()


def test_a_report_about_another_vantage_point_is_refused(world: CentreWorld) -> None:
    """Its vantage point would become a folder name, its outputs file names."""
    report = json.loads((world.run.path / "targets" / "report.json").read_text())
    for change in (
        {"vantage": "../../x", "repetition": 1, "stage": "probe"},
        {"vantage": "hamburg", "repetition": 1, "stage": "probe"},
        {"stage": "../as_data"},
        {"outputs": {"../../../x": HASH}},
        {"outputs": {"/etc/passwd": HASH}},
    ):
        content = json.dumps({**report, **change}).encode()
        listing = copy.deepcopy(world.listing)
        (entry,) = [entry for entry in listing["files"] if entry["name"] == "targets/report.json"]
        entry.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
        _, run = world.fetch(world.answer(listing, {"targets/report.json": content}))
        with pytest.raises(FirstflightError, match="report"):
            run.reports()
        run.layout.report("targets").unlink()


def test_a_symbolic_link_is_not_followed_out_of_the_run(world: CentreWorld) -> None:
    outside = world.folder / "outside"
    outside.mkdir()
    pending = world.around / "pending" / "runs" / world.run.id
    pending.mkdir(parents=True)
    (pending / "lists").symlink_to(outside)
    with pytest.raises(UnsafeName, match="leads out of"):
        world.fetch(world.answer(world.listing, {}))
    assert list(outside.iterdir()) == []


_DATED = b"HTTP/1.1 200 OK\r\nDate: Mon, 01 Jan %s\r\n\r\n{}"


def _inputs_only(answer: Callable[[], Iterable[bytes]]) -> Callable[[str], Iterable[bytes]]:
    return lambda _path: answer()


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda: endless(b"[" * 65536), "has more than the"),
        (lambda: endless(b" " * 65536), "has more than the"),
        (lambda: [whole(b"[" * 1_000_000)], "is not JSON"),
        (lambda: [whole(b"")], "is not JSON"),
        (lambda: [whole(b"[]")], "is not a list of inputs"),
        (lambda: [whole(b'{"manifest": 7}')], "is not a list of inputs"),
        # Declared as compressed; the client never decompresses.
        (lambda: [whole(gzip.compress(bytes(1 << 26)), "Content-Encoding: gzip")], "is not JSON"),
        (lambda: [whole(b"", "Location: http://169.254.169.254/", status="302 Found")], "answered 302"),
        (lambda: endless(b"x" * 65536, "Content-Type: text/plain"), "has more than the"),
        (lambda: [b"HTTP/1.1 200 OK\r\nDate: never\r\n\r\n{}"], "is not a list of inputs"),
        (lambda: [_DATED % b"99999999999 00:00:00 GMT"], "is not a list of inputs"),
        (lambda: [_DATED % b"2026 00:00:00 +99999999999999999"], "is not a list of inputs"),
        (lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"], "aborted"),
        (lambda: [whole(b"{}", f"X: {'x' * 70000}")], "did not answer"),
        (lambda: [b"\x00\xff" * 1000], "did not answer"),
        (list, "did not answer"),
    ],
)
def test_answers_of_any_kind_are_one_sentence(
    world: CentreWorld, answer: Callable[[], Iterable[bytes]], says: str
) -> None:
    with pytest.raises(CentreUnreachable, match=says) as caught:
        world.fetch(_inputs_only(answer))
    assert "\n" not in str(caught.value)
    assert not world.around.exists()


def test_a_redirection_is_not_followed(world: CentreWorld) -> None:
    requested = []

    def elsewhere(path: str) -> Iterable[bytes]:
        requested.append(path)
        return [whole(b"{}")]

    with serving(world.folder / "other", elsewhere) as other:
        redirection = whole(b"", f"Location: {other.url}/secret", status="307 Temporary Redirect")
        with pytest.raises(CentreUnreachable, match="answered 307"):
            world.fetch(lambda _path: [redirection])
    assert requested == []


def test_a_file_that_is_longer_than_announced_fills_no_disk(world: CentreWorld) -> None:
    base = f"/firstflight/v1/runs/{world.run.id}/inputs"

    def answer(path: str) -> Iterable[bytes]:
        return [whole(json.dumps(world.listing).encode())] if path == base else endless(b"x" * 65536)

    with pytest.raises(CentreUnreachable, match="has more than the"):
        world.fetch(answer)
    remaining = [path for path in world.around.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert remaining == []
