"""`firstflight crawl`: exit statuses, resumption, lists, and input that it refuses before it sends."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from crawler.files import rows
from tests.crawl_files.world import CrawlWorld, last_crawl
from tests.waiting import PATIENCE_S, until

ONE, TWO = "one.downloads.test", "two.downloads.test"


def run(argv: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S, input=text)


def test_rejected_lines_are_reported_and_the_rest_is_done(world: CrawlWorld) -> None:
    done = run(world.argv(Path("-")), f"rank,domain\n1,{ONE}\n2,198.18.0.1\n3,{ONE}\n4\n5,{TWO}\n")
    assert done.returncode == 1, done.stderr
    assert {json.loads(line)["domain"] for line in done.stdout.splitlines()} == {ONE, TWO}
    assert "line 3: '198.18.0.1' is an address" in done.stderr and "line 5: the name is empty" in done.stderr
    assert "2 names, 0 done before, 1 duplicates, 2 lines rejected" in done.stderr


@pytest.mark.parametrize(
    ("more", "status", "says"),
    [
        (["--contact", "", "--allow-net", "198.51.100.0/24"], 2, "is not inside loopback"),
        (["--resolver", "here"], 2, "write IP or IP:PORT"),
        (["--targets", "/nowhere.csv"], 3, "cannot read /nowhere.csv"),
        (["--roots", "{targets}"], 3, "cannot read certificates"),
        (["--blocklist", "{targets}"], 3, "is no address"),
        (["--journal", "{targets}"], 3, "no line of a crawl's journal"),
        (["--rate", "nan"], 2, "--rate: a number is expected"),
    ],
)
def test_wrong_use_sends_nothing(
    world: CrawlWorld, tmp_path: Path, more: list[str], status: int, says: str
) -> None:
    targets = tmp_path / "t.csv"
    targets.write_text(f"domain\nfive.downloads.test\n{ONE}\n")
    before = len(world.asked("five.downloads.test"))
    done = run(world.argv(targets, *(word.replace("{targets}", str(targets)) for word in more)))
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert says in done.stderr and len(done.stderr.splitlines()) <= 3
    assert len(world.asked("five.downloads.test")) == before


def test_without_contact_only_allowed_networks(world: CrawlWorld, tmp_path: Path) -> None:
    targets = tmp_path / "t.csv"
    targets.write_text(f"domain\n{ONE}\n")
    argv = [word for word in world.argv(targets) if word not in ("--contact", "crawl@example.org")]
    allowed = argv.index("--allow-net")
    assert run(argv[:allowed] + argv[allowed + 2 :]).returncode == 2
    elsewhere = [*argv[: allowed + 1], "127.2.0.0/16", *argv[allowed + 2 :]]
    row = json.loads(run(elsewhere).stdout)
    assert (row["outcome"], row["reason"]) == ("blocked", "its address is special")


def test_opted_out_names_are_not_contacted(world: CrawlWorld, tmp_path: Path) -> None:
    optout = tmp_path / "optout.conf"
    optout.write_text("*.downloads.test\n")
    before = len(world.asked(TWO))
    (row,) = world.crawl([TWO], "--optout", str(optout))
    assert (row["outcome"], row["reason"]) == ("blocked", "its name is on a list")
    assert len(world.asked(TWO)) == before


def test_a_name_that_redirects_to_an_opted_out_one(world: CrawlWorld, tmp_path: Path) -> None:
    name, optout = "redirect-www.downloads.test", tmp_path / "optout.conf"
    optout.write_text(f"www.{name}\n")
    before = len(world.asked(name))
    (row,) = world.crawl([name], "--optout", str(optout))
    assert (row["outcome"], row["reason"]) == ("elsewhere", "redirect of robots.txt")
    assert [path for _, path, _ in world.asked(name)[before:]] == ["/robots.txt"]


def test_name_without_address_and_resolver_that_is_gone(world: CrawlWorld) -> None:
    (row,) = world.crawl(["nowhere.downloads.test"])
    assert (row["ip"], row["outcome"], row["reason"]) == (None, "failed", "it has no address")
    many = [f"n{number}.downloads.test" for number in range(30)]
    # No row: it is unknown whether these names have an address.
    assert world.crawl(many, "--resolver", "127.0.0.9:5", status=3) == []


def test_rows_have_the_columns_of_the_kind(world: CrawlWorld) -> None:
    (row,) = world.crawl([ONE])
    assert list(row) == rows.own_columns("download_file")
    assert row["content_type"] == "application/octet-stream" and row["etag"] and row["last_modified"]
    assert row["crawled_at"] < row["found_at"] and row["found_on"] == f"https://{ONE}/"


def test_crawl_ends_when_its_output_is_closed(world: CrawlWorld, tmp_path: Path) -> None:
    trap = "trap.downloads.test"
    targets = tmp_path / "t.csv"
    targets.write_text(f"domain\n{ONE}\n{trap}\n")
    argv = world.argv(targets, "--per-address-rate", "10")
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as crawl:
        assert crawl.stdout is not None and ONE.encode() in crawl.stdout.readline()
        crawl.stdout.close()
        assert crawl.wait(60) == 0
    assert len(last_crawl(world.asked(trap))) < 200


def test_a_request_that_waits_for_the_rate_is_not_sent_after_ctrl_c(
    world: CrawlWorld, tmp_path: Path
) -> None:
    """The first of eight names starts immediately, the next after 100 s."""
    names = [site.name for site in world.sites if site.kind == "files" and site.outcome == "found"][:8]
    targets = tmp_path / "t.csv"
    targets.write_text("domain\n" + "".join(f"{name}\n" for name in names))

    def request_count() -> int:
        return sum(len(world.asked(name)) for name in names)

    before = request_count()
    crawl = subprocess.Popen(world.argv(targets, "--rate", "0.01"), stderr=subprocess.DEVNULL)
    try:
        until(lambda: request_count() > before, "the first request")
        crawl.send_signal(signal.SIGINT)
        assert crawl.wait(90) == 130
    finally:
        crawl.kill()
    assert request_count() == before + 1


def test_output_that_cannot_be_written_ends_it(world: CrawlWorld, tmp_path: Path) -> None:
    targets = tmp_path / "t.csv"
    targets.write_text(f"domain\n{ONE}\n{TWO}\n")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            world.argv(targets),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
    assert done.returncode == 3 and "cannot write the answer" in done.stderr


def test_dry_run_sends_nothing(world: CrawlWorld, tmp_path: Path) -> None:
    targets, journal = tmp_path / "t.csv", tmp_path / "journal"
    targets.write_text("domain\nfive.downloads.test\n")
    before = len(world.asked("five.downloads.test"))
    done = run(world.argv(targets, "--dry-run", "--journal", str(journal)))
    assert (done.returncode, journal.exists()) == (0, False)
    assert "at most 200 requests" in done.stdout and "nothing was sent" in done.stdout
    assert len(world.asked("five.downloads.test")) == before


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
@pytest.mark.parametrize("content", ["domain\none.test\ntwo.test", "one.test", "\n", "{", '{"download_fil'])
def test_a_file_that_is_no_journal_stays_as_it_is(
    world: CrawlWorld, tmp_path: Path, content: str, more: tuple[str, ...]
) -> None:
    """An exception is the start of a journal's first line: it counts as a journal that was cut."""
    targets, other = tmp_path / "t.csv", tmp_path / "other"
    targets.write_text("domain\n")
    other.write_text(content)
    done = run(world.argv(targets, "--journal", str(other), *more))
    if content.startswith("{"):
        assert (done.returncode, other.read_text()) == (0, content if more else "")
    else:
        assert done.returncode == 3 and "line 1: this is no line of a crawl's journal" in done.stderr
        assert other.read_text() == content


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_killed_crawl_resumes_where_it_was(world: CrawlWorld, tmp_path: Path, number: signal.Signals) -> None:
    """The trap needs 200 requests, so it finishes after the others."""
    names = [ONE, "robots-forbid.downloads.test", "trap.downloads.test"]
    targets, journal, out = tmp_path / "t.csv", tmp_path / "journal", tmp_path / "out"
    targets.write_text("domain\n" + "\n".join(names) + "\n")
    argv = world.argv(targets, "--journal", str(journal), "--per-address-rate", "10")
    with out.open("wb") as rows_out:
        crawl = subprocess.Popen(argv, stdout=rows_out, stderr=subprocess.DEVNULL)
        until(lambda: out.read_text().count("\n") == 2, "two names are done")
        crawl.send_signal(number)
        assert crawl.wait(60) == (130 if number is signal.SIGINT else -signal.SIGKILL)
    with journal.open("ab") as file:
        file.write(b'{"download_file": {"dom')  # as if it had been killed while it wrote
    before = {name: len(world.asked(name)) for name in names}
    done = run(world.argv(targets, "--journal", str(journal), "--max-requests", "30"))
    assert done.returncode == 0, done.stderr
    (row,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert (row["domain"], row["outcome"], row["reason"]) == (names[2], "limit", "30 requests")
    assert [len(world.asked(name)) - before[name] for name in names[:2]] == [0, 0]
    assert len(last_crawl(world.asked(names[2]))) == 30
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sorted(line["crawl_page"]["domain"] for line in lines) == sorted(names)
    assert {line["crawl_page"]["requests"] for line in lines} == {3, 1, 30}


def test_addresses_of_the_lab_are_not_contacted_outside_it(world: CrawlWorld, tmp_path: Path) -> None:
    empty = tmp_path / "none.conf"
    empty.write_text("")
    targets = tmp_path / "t.csv"
    targets.write_text("domain\nblocked.downloads.test\n")
    argv = world.argv(targets, "--allow-net", "198.18.0.0/15")
    argv[argv.index("--blocklist") + 1] = str(empty)
    done = run(argv)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "is an address of the lab" in done.stderr
