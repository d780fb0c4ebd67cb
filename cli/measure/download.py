"""`firstflight download`: downloads files under chosen TCP option sets and over QUIC."""

from __future__ import annotations

import secrets
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.shared.options import InputPath, egress
from downloader.option_sets import SETS, WARMUP
from firstflight.errors import UsageError
from firstflight.system import stdout, terminal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from downloader.files.targets import Target
    from downloader.option_sets import OptionSet
    from downloader.transfers.session import Limits

DEFAULT_SETS = "bl,ws14,all14,quiche"


@click.command(
    epilog="Example: firstflight download --targets files.csv --sets bl,ws14,all14 --contact me@example.org "
    "--format jsonl | jq -c '[.domain, .set, .outcome, .download_throughput_bps]'"
)
@click.option(
    "--targets",
    "targets_file",
    type=InputPath(),
    required=True,
    metavar="FILE",
    help="CSV with header url,ip.",
)
@click.option(
    "--sets",
    default=DEFAULT_SETS,
    show_default=True,
    metavar="SET[,SET...]",
    help=f"{WARMUP} (always first), {', '.join(name for name in SETS if name != WARMUP)}.",
)
@click.option(
    "--capture",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Keep captures and key logs here.",
)
@click.option(
    "--format", "format_", type=click.Choice(["jsonl"]), default="jsonl", help="Format of the output."
)
@click.option(
    "--timeout",
    default=45.0,
    show_default=True,
    type=click.FloatRange(1, 600),
    metavar="SECONDS",
    help="Maximum duration of a download.",
)
@click.option(
    "--max-bytes",
    default=10 << 20,
    show_default=True,
    type=click.IntRange(1, 1 << 30),
    metavar="N",
    help="Maximum bytes of a body; the download stops there.",
)
@click.option(
    "--rate",
    default=1.0,
    show_default=True,
    type=click.FloatRange(0.001, 1000),
    metavar="N",
    help="Maximum downloads per second; pauses 1/N seconds between downloads.",
)
@click.option(
    "--fixed-order", is_flag=True, help="Use the given order of sets, as the paper does, not a random one."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), metavar="N", help="Seed of the random orders.")
@click.option("--roots", type=InputPath(), metavar="FILE", help="PEM file of trusted roots [Mozilla's].")
@click.option(
    "--contact",
    default="",
    metavar="TEXT",
    help="How operators can reach you; required for public addresses.",
)
@egress
@click.option("--dry-run", is_flag=True, help="Print the budget; send nothing.")
@click.pass_context
def command(context: click.Context, /, **_: object) -> None:
    """Download each file once per option set, from its address, one at a time, under capture.

    Prints one line per planned download, after all downloads have finished and their captures are read. Each
    set uses a separate network namespace, which requires root and IPv4 forwarding.
    """
    from downloader import downloads, option_sets
    from downloader.files.targets import RejectedLine, read
    from downloader.transfers.session import Limits
    from firstflight.egress.permitted import Permitted

    given = context.params
    stdout.check_open()
    sets = option_sets.chosen(given["sets"])
    permitted = Permitted(given["blocklists"], given["optouts"], given["allow"])
    limits = Limits(
        timeout_s=given["timeout"],
        max_bytes=given["max_bytes"],
        pause_s=1 / given["rate"],
        fixed_order=given["fixed_order"],
        contact=given["contact"],
        roots=given["roots"],
    )
    targets: list[Target] = []
    rejected = 0
    for line in read(given["targets_file"]):
        if isinstance(line, RejectedLine):
            rejected += 1
            terminal.echo(f"line {line.line}: {line.reason}", err=True)
        else:
            targets.append(line)
    downloads.check(targets, permitted, given["contact"])
    budget = downloads.budget(len(targets), sets, limits)
    if given["dry_run"]:
        terminal.echo(f"{budget}; nothing was sent")
        return
    terminal.echo(budget, err=True)
    lists = [f"blocklist={path}" for path in given["blocklists"]]
    lists += [f"optout={path}" for path in given["optouts"]]
    lists += [f"allow-net={network}" for network in given["allow"]]
    seed = given["seed"] if given["seed"] is not None else secrets.randbits(63)
    with ExitStack() as stack:
        folder: Path | None = given["folder"]
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="firstflight-download.")))
        elif folder.is_dir() and any(folder.iterdir()):
            raise UsageError(f"{folder} is not empty: name a new folder for the captures")
        folder.mkdir(parents=True, exist_ok=True)
        for row in _download(targets, sets, folder, lists, limits, seed):
            sys.stdout.write(terminal.as_json(row) + "\n")
    if rejected:
        terminal.echo(f"{rejected} lines rejected", err=True)
        context.exit(1)


def _download(
    targets: list[Target],
    sets: list[OptionSet],
    folder: Path,
    lists: list[str],
    limits: Limits,
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Do the downloads and yield their rows; after a signal, yield finished rows and raise Interrupted."""
    from downloader import downloads
    from downloader.transfers import worker
    from firstflight.errors import Interrupted
    from firstflight.system.noted_signals import noted_signals

    interrupted: Interrupted | None = None
    remaining = iter(targets)
    finished = 0

    def done(target: Target) -> None:
        nonlocal finished
        finished += 1
        terminal.echo(f"{finished} of {len(targets)}: {target.domain}", err=True)

    with noted_signals() as signalled:

        def watch() -> None:
            if signalled():
                raise worker.stopped("a signal")

        try:
            downloads.run(len(targets), remaining.__next__, sets, folder, lists, limits, seed, watch, done)
        except Interrupted as error:
            interrupted = error
    yield from downloads.read(folder)
    if interrupted is not None:
        raise interrupted
