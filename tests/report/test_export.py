"""Exports: equal report page as the store, removed opted-out hosts, unchanged counts after hashing."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight.errors import InputError, UsageError
from reports.page import page
from reports.page.content import Content
from schemas import records
from store import open_store
from store.export import identity, package, rows
from store.export.anonymous import Anonymiser, read_key
from store.export.opted_out import OptedOut
from store.load import loader
from tests.report import world
from tests.report.conftest import ReportedRun

FIRSTFLIGHT = str(Path(sys.executable).parent / "firstflight")
# Parts of a page that depend on settings, manifest and store instead of rows.
_ABOUT = {"provenance", "run_answer", "runs"}


def exported(made: ReportedRun, out: Path, opted_out: OptedOut, anonymiser: Anonymiser | None = None) -> Any:
    with open_store(made.url) as store:
        export = package.Export(store, out, opted_out, 1, anonymiser)
        return export.write([made.run], "CC-BY-4.0", None, ["Ada"])


def loaded_back(out: Path) -> Content:
    """Load an export into the test's store, and return the content of the page."""
    (run,) = package.runs_in(out)
    assert not [result for result in loader.load_run_folder(run) if isinstance(result, loader.RefusedFile)]
    with open_store() as store:
        found = page.collect(store)
    assert found is not None
    return found


def parts(content: Content) -> dict[str, Any]:
    return {f.name: getattr(content, f.name) for f in dataclasses.fields(content) if f.name not in _ABOUT}


def test_every_text_column_is_classified() -> None:
    for kind in rows.kinds():
        for column in kind.file_columns:
            assert isinstance(identity.of(column), identity.Holds), (kind.name, column.name)


@pytest.mark.usefixtures("tables")
def test_the_page_of_an_export_equals_that_of_the_run(made: ReportedRun, tmp_path: Path) -> None:
    out = tmp_path / "data"
    environment = {**os.environ, "FIRSTFLIGHT_STORE": made.url}
    argv = [FIRSTFLIGHT, "export", made.run, "--out", str(out), "--licence", "CC-BY-4.0"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr
    assert "opt-outs: the runs used gone.txt: give --optout FILE" in done.stderr
    loaded = subprocess.run([FIRSTFLIGHT, "load", str(out)], capture_output=True, text=True, check=False)
    assert loaded.returncode == 0 and "1 loaded, 0 replaced" in loaded.stdout, loaded.stderr
    with open_store() as store:
        of_export = page.collect(store)
    assert of_export is not None
    theirs, ours = parts(made.gathered), parts(of_export)
    assert {name for name in theirs if theirs[name] != ours[name]} == set()
    # Loading adds no file to the export.
    listed = {line.split("  ")[1] for line in (out / package.SUMS).read_text().splitlines()}
    exported_files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert exported_files == listed | {package.SUMS}
    for line in (out / package.SUMS).read_text().splitlines():
        digest, name = line.split("  ")
        assert sha256((out / name).read_bytes()).hexdigest() == digest
    described = json.loads((out / "datapackage.json").read_text())
    (resource,) = described["resources"]
    fields = json.loads((out / resource["schema"]).read_text())["fields"]
    assert [field["name"] for field in fields] == pq.read_schema(out / resource["path"]).names
    assert described["licenses"] == [{"name": "CC-BY-4.0"}]
    settings = (out / "runs" / made.run / "settings.json").read_text()
    manifest = (out / "runs" / made.run / "manifest.json").read_text()
    assert "cid_key" not in manifest and str(tmp_path.parent) not in settings + manifest
    assert "chdb:" not in settings and "noc@example.org" in settings
    assert f"'{made.run}'" in (out / "sql" / f"table1-{made.run}.sql").read_text()


@pytest.mark.usefixtures("tables")
def test_opted_out_rows_are_removed(made: ReportedRun, tmp_path: Path) -> None:
    optout = tmp_path / "optout.txt"
    optout.write_text("cloudflare1.example\n2001:db8:48::/64\n")
    contents = exported(made, tmp_path / "data", OptedOut([optout]))
    (written,) = contents.files
    assert written.removed == 6 + 6  # a name and an IPv6 address, at three vantage points, twice
    everything = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*.json"))
    found = pq.read_table(tmp_path / "data" / written.path)
    assert found.num_rows == written.rows
    assert {"cloudflare1.example", "2001:db8:48::1"}.isdisjoint(
        {*found["domain"].to_pylist(), *found["ip"].to_pylist()}
    )
    assert "cloudflare10.example" in found["domain"].to_pylist()
    assert b"cloudflare1.example" not in everything
    of_export = loaded_back(tmp_path / "data")
    assert of_export.table is not None and made.gathered.table is not None
    domains = {row["cdn"]: row["domains"] for row in of_export.table.as_dicts()}
    before = {row["cdn"]: row["domains"] for row in made.gathered.table.as_dicts()}
    assert domains == before | {"Cloudflare": before["Cloudflare"] - 1}


@pytest.mark.usefixtures("tables")
def test_hashes_keep_every_count(made: ReportedRun, tmp_path: Path) -> None:
    exported(made, tmp_path / "data", OptedOut([]), Anonymiser(b"k" * 32))
    found = pq.read_table(tmp_path / "data" / "runs" / made.run / "quic_probe.parquet")
    assert all(name.endswith(".invalid") and len(name) == 40 for name in found["domain"].to_pylist())
    assert all(text is None or text.startswith("client-") for text in found["src_ip"].to_pylist())
    everything = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    for text in (b"noc@example.org", b"owned.example", b"Owner Company", b"control.example"):
        assert text not in everything
    settings = json.loads((tmp_path / "data" / "runs" / made.run / "settings.json").read_text())
    assert settings["watch"]["owned"] == [Anonymiser(b"k" * 32).name("owned.example")]
    assert settings["backoff"]["control"] == [Anonymiser(b"k" * 32).name("control.example")]
    of_export = loaded_back(tmp_path / "data")
    theirs, ours = parts(made.gathered), parts(of_export)
    differing = {name for name in theirs if theirs[name] != ours[name]}
    # Resolvers are hashed, and so is text in a close's reason that looks like a name.
    assert differing == {"coverage", "coverage_answer", "reasons"}
    for name in ("coverage_answer", "reasons"):
        counts = [sorted(row["probes"] for row in part[name].rows) for part in (theirs, ours)]
        assert counts[0] == counts[1]


def test_a_changed_export_is_refused(made: ReportedRun, tmp_path: Path) -> None:
    exported(made, tmp_path, OptedOut([]))
    manifest = tmp_path / "runs" / made.run / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")
    with pytest.raises(InputError, match=r"manifest\.json does not have the checksum in SHA256SUMS"):
        package.runs_in(tmp_path)
    manifest.write_text(manifest.read_text()[:-1])
    (tmp_path / "runs" / made.run / "dns_answer.parquet").mkdir()
    with pytest.raises(InputError, match=r"^cannot read .*dns_answer\.parquet: .*Is a directory"):
        package.runs_in(tmp_path)


def test_a_run_in_another_folder_is_not_part_of_an_export(made: ReportedRun, tmp_path: Path) -> None:
    out = tmp_path / "data"
    exported(made, out, OptedOut([]))
    (out / "runs").rename(tmp_path / "runs")
    (out / "runs").mkdir()
    (out / "runs" / made.run).symlink_to(tmp_path / "runs" / made.run)
    with pytest.raises(InputError, match=rf"{made.run}, a run of {out}, is not in that folder"):
        package.runs_in(out)


def test_of_texts_only_names_are_hashed() -> None:
    hashed = Anonymiser(b"k" * 32)
    name = hashed.name("Www.Example.com.")
    assert name == hashed.name("www.example.com") and name.endswith(".invalid") and hashed.name("") == ""
    assert hashed.text("for www.example.com: TLS 1.3, 192.0.2.1") == f"for {name}: TLS 1.3, 192.0.2.1"
    url = hashed.url("https://www.example.com/a/b.pdf?x=1")
    assert url.startswith(f"https://{name}/") and "pdf" not in url
    kind = records.load("dns_answer")
    row = dict.fromkeys(kind.arrow_schema().names)
    row |= {"cname_chain": ["a.example", "b.example"], "domain": "a.example", "address": "192.0.2.7"}
    table = pa_table(kind, [row, row | {"cname_chain": []}])
    first, second = hashed.rows(table, kind).to_pylist()
    assert first["cname_chain"] == [hashed.name("a.example"), hashed.name("b.example")]
    assert (first["domain"], first["address"]) == (hashed.name("a.example"), "192.0.2.7")
    assert second["cname_chain"] == []


@pytest.mark.parametrize(
    ("entry", "field", "value", "is_kept"),
    [
        ("b.example", "cname_chain", ["a.test", "x.b.example"], False),
        ("b.example", "domain", "bb.example", True),
        ("192.0.2.0/24", "address", "192.0.2.9", False),
        ("192.0.2.0/24", "https_ipv4hint", ["198.51.100.1", "192.0.2.1"], False),
        ("192.0.2.1", "address", "::ffff:192.0.2.1", False),
        ("b.example", "data", "1 b.example. alpn=h3", False),
        ("b.example", "data", "1 bb.example. alpn=h3", True),
    ],
)
def test_an_opt_out_entry_covers_these_rows(
    tmp_path: Path, entry: str, field: str, value: object, is_kept: bool
) -> None:
    optout = tmp_path / "optout.txt"
    optout.write_text(f"{entry}\n")
    kind = records.load("dns_answer")
    row = dict.fromkeys(kind.arrow_schema().names) | {"domain": "a.test", field: value}
    table = pa_table(kind, [row])
    assert OptedOut([optout]).without_opted_out(table, kind).num_rows == is_kept


def pa_table(kind: records.Kind, given: list[dict[str, Any]]) -> Any:
    import pyarrow as pa

    schema = pa.schema([field.with_nullable(True) for field in kind.arrow_schema()])
    lists: dict[str, list[object]] = {column.name: [] for column in kind.file_columns if column.is_list}
    return pa.Table.from_pylist(
        [{name: lists.get(name) if value is None else value for name, value in row.items()} for row in given],
        schema=schema,
    )


def test_text_that_is_not_utf_8(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "one" / "runs"))
    run = world.campaign(tmp_path / "one", place)
    with open_store(write=True) as store:
        store.execute("ALTER TABLE quic_probe UPDATE detail = unhex('ff') WHERE outcome = 'timeout'")
    with open_store() as store, pytest.raises(InputError, match="text of quic_probe is not UTF-8"):
        export = package.Export(store, tmp_path / "data", OptedOut([]), 0, Anonymiser(b"k" * 32))
        export.write([run.id], "CC0-1.0", None, [])
    assert not package.is_export(tmp_path / "data")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--out", "new"], "Missing option '--licence'"),
        (["--out", "new", "--licence", "CC0-1.0", "--key-file", "/dev/null"], "goes with --anonymise"),
        (["--out", "/etc", "--licence", "CC0-1.0"], "/etc exists and is not an empty folder"),
    ],
)
def test_wrong_use(arguments: list[str], sentence: str) -> None:
    from click.testing import CliRunner

    from cli.store.export import command

    done = CliRunner().invoke(command, ["20261120T063905Z-a1b2c3", *arguments])
    assert done.exit_code != 0
    assert sentence in done.output or sentence in str(done.exception)


def test_a_missing_run(made: ReportedRun, tmp_path: Path) -> None:
    with open_store(made.url) as store, pytest.raises(UsageError, match="has no manifest of run 2026"):
        export = package.Export(store, tmp_path / "data", OptedOut([]), 0, None)
        export.write(["20261120T063905Z-000000"], "CC0-1.0", None, [])


def test_a_key_is_64_hex_digits(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("ab" * 32 + "\n")
    assert read_key(key) == b"\xab" * 32 and len(read_key(None)) == 32
    key.write_text("short")
    with pytest.raises(InputError, match="64 hex digits"):
        read_key(key)


@pytest.mark.parametrize(
    ("address", "is_listed"),
    [
        *[("192.0.1.255", False), ("192.0.2.0", True), ("192.0.2.255", True), ("192.0.3.7", True)],
        *[("192.0.4.0", False), ("198.51.100.8", False), ("198.51.100.9", True), ("198.51.100.10", False)],
        *[("::ffff:192.0.3.7", True), ("2001:db8::1", True), ("2001:db9::", False), ("no address", False)],
    ],
)
def test_addresses_in_listed_networks(address: str, is_listed: bool, tmp_path: Path) -> None:
    """Networks overlap, touch, and are out of order."""
    optout = tmp_path / "gone.txt"
    optout.write_text("198.51.100.9\n192.0.3.0/24\n2001:db8::/32\n192.0.2.0/24\n192.0.2.128/25\n")
    assert OptedOut([optout]).has_address(address) is is_listed
