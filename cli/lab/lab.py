"""`firstflight lab`: manages the test Internet. Imports inside the functions keep `lab exec` fast."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from firstflight.system import stdout, terminal

_STATE = click.option(
    "--state",
    metavar="DIR",
    help="Folder for the lab's state [default: $FIRSTFLIGHT_LAB, else var/lab].",
)
_BEHAVIOUR = click.option(
    "--behaviour",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="File that describes all hosts [default: lab/internet.toml].",
)


@click.group(
    epilog="Example: firstflight lab up && firstflight lab exec hamburg dig site-001.cloudflare.test"
)
def command() -> None:
    """Start, use and remove the test Internet."""


@command.command(epilog="Example: firstflight lab up --capture-edges")
@_STATE
@_BEHAVIOUR
@click.option("--capture-edges", is_flag=True, help="Capture QUIC and ICMP at every edge (STATE/captures).")
@click.option(
    "--realtime/--no-realtime",
    default=True,
    show_default=True,
    help="Run the link emulator and servers with declared delays at real-time priority, where allowed.",
)
def up(state: str | None, behaviour: Path | None, capture_edges: bool, realtime: bool) -> None:
    """Start the lab; returns when all services are ready."""
    from lab import launch
    from lab.declared import internet
    from lab.state import locate

    launch.up(
        locate(state),
        behaviour or internet.DEFAULT,
        capture_edges=capture_edges,
        realtime=realtime,
        progress=lambda line: terminal.echo(line, err=True),
    )


@command.command(epilog="Example: firstflight lab down")
@_STATE
def down(state: str | None) -> None:
    """Remove the lab; no error if it does not exist."""
    from lab import launch
    from lab.state import locate

    terminal.echo("lab: down" if launch.down(locate(state)) else "lab: was not up", err=True)


@command.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog="Example: firstflight lab exec hamburg ping -c 1 198.18.0.53",
)
@_STATE
@click.argument("host")
@click.argument("argv", nargs=-1, required=True, type=click.UNPROCESSED, metavar="CMD...")
def exec_(state: str | None, host: str, argv: tuple[str, ...]) -> None:
    """Run a program on a host of the lab; replaces this process."""
    from lab import enter
    from lab.state import locate

    enter.execute(locate(state), host, argv)


@command.command(epilog="Example: firstflight lab truth --format jsonl | head -1")
@_STATE
@_BEHAVIOUR
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl"]),
    default="jsonl",
    show_default=True,
    help="Format of the output.",
)
@click.option("--table1", "as_table1", is_flag=True, help="Table 1 as declared, one line per CDN.")
@click.option("--certificates", is_flag=True, help="Each certificate that servers send, one line each.")
@click.option("--files", is_flag=True, help="Expected results of a crawl, one line per name with a web site.")
@click.option("--paths", is_flag=True, help="Round-trip time, rate and queue of each path, one line each.")
@click.option(
    "--downloads", is_flag=True, help="Expected results of downloads, one line per name with a file."
)
def truth(
    state: str | None,
    behaviour: Path | None,
    form: str,  # noqa: ARG001
    as_table1: bool,
    certificates: bool,
    files: bool,
    paths: bool,
    downloads: bool,
) -> None:
    """Print the expected result of each probe, for the last started lab or else for the behaviour file."""
    from dataclasses import asdict

    from lab.declared import file_sites, internet
    from lab.expected import mirror_truth
    from lab.expected import truth as declared
    from lab.expected.handshake_truth import HandshakeTruth
    from lab.state import locate

    stdout.check_open()
    place = locate(state)
    stored = place.behaviour_file
    net = internet.load(behaviour or (stored if stored.exists() else internet.DEFAULT))
    rows: Iterable[dict[str, Any]] = declared.lines(net, place.folder)
    if as_table1:
        rows = (asdict(row) for row in declared.table1(net))
    elif certificates:
        rows = HandshakeTruth(net, place.folder).certificates()
    elif files:
        rows = file_sites.truth()
    elif paths:
        rows = declared.paths(net)
    elif downloads:
        rows = mirror_truth.lines(net)
    for row in rows:
        terminal.echo(terminal.as_json(row))


@command.command(epilog="Example: firstflight lab epoch 2")
@_STATE
@click.argument("number", type=int)
def epoch(state: str | None, number: int) -> None:
    """Switch names that vary to the addresses of epoch N."""
    from lab import launch
    from lab.state import locate

    launch.set_epoch(locate(state), number)
    terminal.echo(f"lab: epoch {number}", err=True)


@command.command(epilog="Example: firstflight lab status")
@_STATE
def status(state: str | None) -> None:
    """Print epoch and services as JSON; exit status 1 if the lab or a service is not running."""
    import sys

    from lab import launch
    from lab.state import locate

    report = launch.status(locate(state)) or {"up": False}
    terminal.echo(terminal.as_json(report, indent=1))
    if not report.get("services") or set(report["services"].values()) != {"up"}:
        sys.exit(1)
