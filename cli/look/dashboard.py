"""`firstflight dashboard`: serves pages about the store."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(
    epilog="Example: firstflight dashboard --port 8000\n\n"
    "Example: firstflight dashboard --host 0.0.0.0 --public --certificate chain.pem --key key.pem"
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: any free port."
)
@click.option("--certificate", type=click.Path(path_type=Path), help="Certificate chain (PEM): HTTPS only.")
@click.option("--key", type=click.Path(path_type=Path), help="Key of the certificate (PEM).")
@click.option(
    "--public",
    is_flag=True,
    help="Allow access from other machines, with limits on time, memory, rows and requests.",
)
def command(host: str, port: int, certificate: Path | None, key: Path | None, public: bool) -> None:
    """Serve web pages for the store that FIRSTFLIGHT_STORE names: charts over time, and the named queries.

    Never changes the store. Stop it with Ctrl-C or SIGTERM. docs/reference/dashboard.md describes the pages.
    """
    from reports.dashboard.serve import Options, serve

    serve(Options(host, port, certificate, key, public))
