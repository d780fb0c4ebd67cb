"""A hostile centre: it cannot write outside its run, name a program, or fill the disk."""

from __future__ import annotations

import copy
import gzip
import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from firstflight.errors import FirstflightError
from firstflight.run.run import Run
from firstflight.system.path_names import UnsafeName
from orchestration.site import inputs
from orchestration.site.centre_client import CentreUnreachable
from orchestration.site.offer import BadOffer
from tests.airflow.test_inputs import HAMBURG, centre_files, open_run

from .evil_https import EvilHost, endless, serving, whole

Listing = dict[str, Any]
PAYLOAD = b"* * * * * root sh -c evil\n"
HASH = hashlib.sha256(PAYLOAD).hexdigest()


class World:
    """An honest run at a centre, the spool that fetches it, and the files around the spool."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "honest").mkdir()
        centre_files(folder / "honest")
        self.folder = folder
        self.run = open_run(folder / "honest", 30_000)
        self.listing: Listing = json.loads((self.run.path / "inputs.json").read_text())
        self.around = folder / "vantage"
        monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(self.around / "spool" / "runs"))

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
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_the_honest_centre_is_believed(world: World) -> None:
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
def test_a_name_that_is_no_input_is_refused_before_anything_is_written(world: World, name: object) -> None:
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
def test_a_hash_that_is_none_is_refused_before_anything_is_written(world: World, sha256: object) -> None:
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
    world: World, change: Callable[[Listing], object]
) -> None:
    listing = copy.deepcopy(world.listing)
    change(listing)
    with pytest.raises(BadOffer, match="are refused, nothing was fetched"):
        world.fetch(world.answer(listing, {}))
    assert not world.around.exists()


@pytest.mark.parametrize("run_id", ["../../x", "..", "/etc", "20260101T000000Z-00000g", "", "a\0b"])
def test_a_run_id_that_is_none_is_not_even_asked_for(world: World, run_id: str) -> None:
    with pytest.raises(UnsafeName):
        inputs.fetch(run_id, HAMBURG, "https://127.0.0.1:9", lambda: "token")
    assert inputs.published(run_id) is None
    assert not world.around.exists()


def _settings(world: World, change: Callable[[dict[str, Any]], object]) -> tuple[Listing, dict[str, bytes]]:
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
    world: World, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    with pytest.raises(BadOffer, match=says) as refused:
        world.fetch(world.answer(*_settings(world, change)))
    assert "\n" not in str(refused.value)
    spooled = Run(world.around / "spool" / "runs" / world.run.id)
    assert not (spooled.path / "manifest.json").exists() and not (spooled.path / "settings.json").exists()
    assert Run.all() == []


def test_a_run_without_settings_is_refused(world: World) -> None:
    listing = copy.deepcopy(world.listing)
    listing["files"] = [entry for entry in listing["files"] if entry["name"] != "settings.json"]
    with pytest.raises(BadOffer, match=r"settings\.json is not among them"):
        world.fetch(world.answer(listing, {}))
    assert Run.all() == []


def test_what_is_this_places_own_stays(world: World) -> None:
    def change(stored: dict[str, Any]) -> None:
        stored["network"]["ca_bundle"] = "/tmp/evil.pem"
        stored["store"]["url"] = "clickhouse://evil.test/x"
        stored["centre"]["command"] = ["sh", "-c", "evil"]

    _, run = world.fetch(world.answer(*_settings(world, change)))
    assert run.settings.network.ca_bundle is None and run.settings.store.url is None
    assert run.settings.centre.command == ()


def test_a_report_that_speaks_of_another_place_is_refused(world: World) -> None:
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


def test_a_symbolic_link_is_not_followed_out_of_the_run(world: World) -> None:
    outside = world.folder / "outside"
    outside.mkdir()
    spooled = world.around / "spool" / "runs" / world.run.id
    spooled.mkdir(parents=True)
    (spooled / "lists").symlink_to(outside)
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
        (lambda: [whole(b"[" * 1_000_000)], "is no JSON"),
        (lambda: [whole(b"")], "is no JSON"),
        (lambda: [whole(b"[]")], "is no list of inputs"),
        (lambda: [whole(b'{"manifest": 7}')], "is no list of inputs"),
        # Declared as compressed; nothing is ever decompressed.
        (lambda: [whole(gzip.compress(bytes(1 << 26)), "Content-Encoding: gzip")], "is no JSON"),
        (lambda: [whole(b"", "Location: http://169.254.169.254/", status="302 Found")], "answered 302"),
        (lambda: endless(b"x" * 65536, "Content-Type: text/plain"), "has more than the"),
        (lambda: [b"HTTP/1.1 200 OK\r\nDate: never\r\n\r\n{}"], "is no list of inputs"),
        (lambda: [_DATED % b"99999999999 00:00:00 GMT"], "is no list of inputs"),
        (lambda: [_DATED % b"2026 00:00:00 +99999999999999999"], "is no list of inputs"),
        (lambda: [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}"], "broke off"),
        (lambda: [whole(b"{}", f"X: {'x' * 70000}")], "did not answer"),
        (lambda: [b"\x00\xff" * 1000], "did not answer"),
        (list, "did not answer"),
    ],
)
def test_answers_of_any_kind_are_one_sentence(
    world: World, answer: Callable[[], Iterable[bytes]], says: str
) -> None:
    with pytest.raises(CentreUnreachable, match=says) as caught:
        world.fetch(_inputs_only(answer))
    assert "\n" not in str(caught.value)
    assert not world.around.exists()


def test_a_redirection_asks_nobody_else(world: World) -> None:
    asked = []

    def elsewhere(path: str) -> Iterable[bytes]:
        asked.append(path)
        return [whole(b"{}")]

    with serving(world.folder / "other", elsewhere) as other:
        away = whole(b"", f"Location: {other.url}/secret", status="307 Temporary Redirect")
        with pytest.raises(CentreUnreachable, match="answered 307"):
            world.fetch(lambda _path: [away])
    assert asked == []


def test_a_file_that_is_longer_than_announced_fills_no_disk(world: World) -> None:
    base = f"/firstflight/v1/runs/{world.run.id}/inputs"

    def answer(path: str) -> Iterable[bytes]:
        return [whole(json.dumps(world.listing).encode())] if path == base else endless(b"x" * 65536)

    with pytest.raises(CentreUnreachable, match="has more than the"):
        world.fetch(answer)
    kept = [path for path in world.around.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert kept == []
