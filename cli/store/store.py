"""`firstflight store`: serves the embedded store to several programs."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from types import FrameType

import click

from firstflight.errors import Interrupted, UsageError
from firstflight.system import terminal
from firstflight.system.network.tcp_listener import host_and_port


@click.group(epilog="Example: firstflight store serve --port 9000")
def command() -> None:
    """Serve the embedded store to several programs."""


@command.command(
    epilog="Example: firstflight store serve --port 9000\n\n"
    "Then elsewhere: FIRSTFLIGHT_STORE_FILE=var/store.address firstflight report table1"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=9000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free port."
)
@click.option(
    "--user", default="default", show_default=True, help="Name of the user, if there is a password."
)
@click.option(
    "--password-file",
    type=click.Path(path_type=Path),
    help="File with the password in its first line [default: generated at the first start].",
)
@click.option("--loader", metavar="NAME", help="A second user, who can load rows but not drop tables.")
@click.option(
    "--loader-password-file", type=click.Path(path_type=Path), help="File with the password of --loader."
)
@click.option("--no-password", is_flag=True, help="Require no password; on loopback only.")
@click.option(
    "--certificate", type=click.Path(path_type=Path), help="Certificate chain (PEM): serve TLS only."
)
@click.option("--key", type=click.Path(path_type=Path), help="Key of the certificate (PEM).")
@click.option("--read-only", is_flag=True, help="Refuse all changes.")
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Serve /metrics (OpenMetrics) on this port of --metrics-host; 0: any free port.",
)
@click.option("--metrics-host", default="127.0.0.1", show_default=True, help="Address to serve metrics on.")
def serve(
    host: str,
    port: int,
    user: str,
    password_file: Path | None,
    loader: str | None,
    loader_password_file: Path | None,
    no_password: bool,
    certificate: Path | None,
    key: Path | None,
    read_only: bool,
    metrics_port: int | None,
    metrics_host: str,
) -> None:
    """Serve ClickHouse's native protocol for the embedded store that FIRSTFLIGHT_STORE names.

    Any number of programs can then load and query concurrently, with clickhouse-driver or firstflight. The
    store is locked until the server stops (Ctrl-C or SIGTERM). The file STORE.address has the address, user
    and password; commands of the same user connect to it automatically.
    """
    from contextlib import ExitStack

    from firstflight.system.network import exporter, tcp_listener
    from store.address import secrets, served_address
    from store.clickhouse import listening
    from store.confine.process import confine, seal
    from store.location import DATABASE, WAIT_S, EmbeddedLocation, find, locked_store, make_folder

    place = find()
    if not isinstance(place, EmbeddedLocation):
        raise UsageError("only an embedded store can be served: write FIRSTFLIGHT_STORE=chdb:PATH")
    if (certificate is None) != (key is None):
        raise UsageError("TLS needs both --certificate and --key")
    if no_password and password_file:
        raise UsageError("--no-password and --password-file exclude each other")
    if (loader is None) != (loader_password_file is None):
        raise UsageError("a second user needs both --loader and --loader-password-file")
    if loader is not None and (no_password or loader == user):
        raise UsageError("--loader needs a name that differs from --user, and excludes --no-password")
    password: str | None
    if password_file:
        password = secrets.first_line(password_file)
    else:
        password = None if no_password else served_address.password(place.path, user)
    access = listening.Access(
        user=user,
        password=password,
        read_only=read_only,
        tls=listening.tls_context(certificate, key) if certificate and key else None,
        loader=loader,
        loader_password=secrets.first_line(loader_password_file) if loader_password_file else "",
    )
    make_folder(place)
    with ExitStack() as stack:
        listener = stack.enter_context(listening.listener(host, port, access))
        # Before the confinement, which forbids new sockets.
        measured = None
        if metrics_port is not None:
            socket = stack.enter_context(tcp_listener.listener(metrics_host, metrics_port))
            measured = exporter.Exporter(socket, lambda: serving.counts.metrics())
        stack.enter_context(locked_store(place, WAIT_S))
        where, on = listening.address_of(listener)
        drawn = password is not None and password_file is None
        address: Path | None = None
        warnings = []
        try:
            address = served_address.write(
                place.path, where, on, DATABASE, user, password, tls=access.tls is not None, drawn=drawn
            )
        except UsageError as error:
            if drawn:  # the password is stored nowhere else
                raise
            warnings.append(f"{error}: give the address to clients yourself")
        warnings += confine(place.path, only_reads=read_only and not place.empty)
        seal(place.path)
        # Imported after the confinement, which covers only later threads: the engine starts threads.
        from store.clickhouse import server

        serving = server.NativeServer(place.path, DATABASE, listener, access)
        caught: list[int] = []

        def end(number: int, _: FrameType | None) -> None:
            caught.append(number)
            serving.stop()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        terminal.echo(f"serving the store in {place.path} at {host_and_port(where, on)}", err=True)
        if address is not None:
            terminal.echo(f"export FIRSTFLIGHT_STORE_FILE={shlex.quote(str(address))}", err=True)
        if measured is not None:
            stack.enter_context(measured.serving())
            terminal.echo(f"metrics at {exporter.url(measured.socket)}", err=True)
        for sentence in warnings:
            terminal.echo(f"firstflight: {sentence}", err=True)
        serving.serve()
    if signal.SIGINT in caught:
        raise Interrupted("interrupted; the store is closed")
    terminal.echo("ended; the store is closed", err=True)
