"""RouteViews' archive in the lab: dumps the collector's tables and publishes them under the archive's paths.

IPv4 is under /bgpdata, IPv6 under /route-views6/bgpdata, as YYYY.MM/RIBS/rib.YYYYMMDD.HHMM.bz2, with
directory pages like Apache's. As at RouteViews, the last even hour (UTC) names a table. A new table follows
every two hours while the lab is up. Runs on host `web` with the collector:
`python -m lab.as_data.routeviews --help`.
"""

from __future__ import annotations

import argparse
import bz2
import html
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from firstflight.errors import FirstflightError
from lab.as_data.mrt import count_prefixes, retimed
from lab.declared.model import Service
from lab.system.programs import program

PERIOD = timedelta(hours=2)
LEARN_TIMEOUT_S = 110.0
TABLES = {"master4": "bgpdata", "master6": "route-views6/bgpdata"}


def publisher(state: Path, tree: Path, host: str, expected: tuple[int, int], past: Sequence[date]) -> Service:
    """Return the service that fills `tree` (the document root of archive.routeviews.org).

    `expected` are the numbers of IPv4 and IPv6 prefixes that the collector must learn before the first dump.
    The service is up when that dump is published. `past` are additional days with the same table.
    """
    argv = [
        sys.executable,
        "-P",
        "-u",
        "-m",
        "lab.as_data.routeviews",
        "--bird",
        str(state / "bird"),
        "--tree",
        str(tree),
    ]
    argv += ["--ipv4", str(expected[0]), "--ipv6", str(expected[1])]
    argv += [f"--past={day.isoformat()}" for day in past]
    return Service(
        name="routeviews",
        host=host,
        argv=tuple(argv),
        ready=r"^archive complete$",
        ready_timeout_s=LEARN_TIMEOUT_S + 60,  # the start, the dump and its compression
    )


def rib_path(root: str, table_time: datetime) -> Path:
    """Return the archive's path to the table at `table_time`, relative to the document root."""
    return Path(root) / f"{table_time:%Y.%m}" / "RIBS" / f"rib.{table_time:%Y%m%d.%H%M}.bz2"


def last_table_time(now: datetime) -> datetime:
    """Return the even hour (UTC) at or before `now`."""
    return now.astimezone(UTC).replace(
        hour=now.astimezone(UTC).hour // 2 * 2, minute=0, second=0, microsecond=0
    )


def publish(dump: bytes, tree: Path, root: str, table_time: datetime) -> Path:
    """Write one compressed table into the archive, update the directory pages above, and return the path."""
    path = tree / rib_path(root, table_time)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(bz2.compress(retimed(dump, int(table_time.timestamp()))))
    part.rename(path)
    for folder in path.parents:
        write_index(folder, tree)
        if folder == tree:
            break
    return path


def write_index(folder: Path, tree: Path) -> None:
    """Write folder/index.html like Apache's fancy index: sort links, parent directory, a row per entry."""
    title_path = "/" + ("" if folder == tree else f"{folder.relative_to(tree)}")
    title = html.escape(f"Index of {title_path}")
    columns = (("N", "Name"), ("M", "Last modified"), ("S", "Size"), ("D", "Description"))
    head = "".join(f'<th><a href="?C={key};O=A">{text}</a></th>' for key, text in columns)
    rows = [f"<tr><th></th>{head}</tr>", '<tr><th colspan="5"><hr></th></tr>']
    if folder != tree:
        parent = "/" + "".join(f"{part}/" for part in folder.parent.relative_to(tree).parts)
        rows.append(_row("[PARENTDIR]", parent, "Parent Directory", "&nbsp;", "  - "))
    for entry in sorted(folder.iterdir()):
        if entry.name == "index.html" or entry.suffix == ".part":
            continue
        name = entry.name + ("/" if entry.is_dir() else "")
        changed = f"{datetime.fromtimestamp(entry.stat().st_mtime, UTC):%Y-%m-%d %H:%M}  "
        size = "  - " if entry.is_dir() else f"{entry.stat().st_size:>4}"
        rows.append(_row("[DIR]" if entry.is_dir() else "[   ]", name, name, changed, size))
    page = (
        '<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN">\n'
        f"<html>\n <head>\n  <title>{title}</title>\n </head>\n <body>\n<h1>{title}</h1>\n  <table>\n"
        + "\n".join(rows)
        + '\n<tr><th colspan="5"><hr></th></tr>\n</table>\n</body></html>\n'
    )
    part = folder / "index.html.part"
    part.write_text(page)
    part.rename(folder / "index.html")


def _row(alt: str, link: str, text: str, changed: str, size: str) -> str:
    name = f'<a href="{html.escape(link)}">{html.escape(text)}</a>'
    cells = f'<td align="right">{changed}</td><td align="right">{size}</td><td>&nbsp;</td>'
    return f'<tr><td valign="top">{alt}</td><td>{name}</td>{cells}</tr>'


class Collector:
    """The running collector, reached through the control socket in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._argv = [program("birdc", "bird2"), "-s", "collector.ctl"]

    def ask(self, command: str) -> str:
        """Run one command and return BIRD's output (which may be an error text if BIRD is not up yet)."""
        done = subprocess.run(
            [*self._argv, command], cwd=self.folder, capture_output=True, text=True, timeout=20, check=False
        )
        return done.stdout + done.stderr

    def prefixes(self, table: str) -> int:
        """Return the number of prefixes in the table; 0 while BIRD does not answer."""
        match = re.search(r"routes for (\d+) networks", self.ask(f"show route count table {table}"))
        return int(match[1]) if match else 0

    def wait(self, expected: dict[str, int], timeout_s: float) -> None:
        """Return when every table holds exactly the expected number of prefixes."""
        end = time.monotonic() + timeout_s
        while (counts := {table: self.prefixes(table) for table in expected}) != expected:
            if time.monotonic() > end:
                raise FirstflightError(
                    f"the lab's collector holds {counts} prefixes instead of {expected} after "
                    f"{timeout_s:.0f} s; see the logs of bird-server and bird-collector"
                )
            time.sleep(0.1)

    def dump(self, table: str) -> bytes:
        """Return the table as MRT, checked for completeness."""
        name = f"{table}.mrt"
        (self.folder / name).unlink(missing_ok=True)
        answer = self.ask(f'mrt dump table "{table}" to "{name}"')
        try:
            dump = (self.folder / name).read_bytes()
        except FileNotFoundError:
            raise FirstflightError(f"BIRD wrote no dump of {table}: {answer.strip()}") from None
        if count_prefixes(dump) != self.prefixes(table):
            raise FirstflightError(f"BIRD's dump of {table} misses prefixes; see the log of bird-collector")
        return dump


def main(arguments: Sequence[str] | None = None) -> int:
    """Wait for the routes, publish, and repeat every two hours; stop only at a signal or an error (1)."""
    parser = argparse.ArgumentParser(prog="python -m lab.as_data.routeviews", description=__doc__)
    parser.add_argument("--bird", type=Path, required=True, help="folder of the collector's control socket")
    parser.add_argument("--tree", type=Path, required=True, help="document root of the archive")
    parser.add_argument("--ipv4", type=int, required=True, help="IPv4 prefixes to wait for")
    parser.add_argument("--ipv6", type=int, required=True, help="IPv6 prefixes to wait for")
    parser.add_argument(
        "--past", type=date.fromisoformat, action="append", default=[], help="also under this day"
    )
    options = parser.parse_args(arguments)
    try:
        collector = Collector(options.bird)
        collector.wait({"master4": options.ipv4, "master6": options.ipv6}, LEARN_TIMEOUT_S)
        times = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in options.past]
        while True:
            now = last_table_time(datetime.now(UTC))
            for table, root in TABLES.items():
                dump = collector.dump(table)
                for table_time in [*times, now]:
                    print("published", publish(dump, options.tree, root, table_time), flush=True)
            print("archive complete", flush=True)
            times = []
            time.sleep(max(1.0, (now + PERIOD - datetime.now(UTC)).total_seconds()))
    except FirstflightError as error:
        print(error, file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main())
