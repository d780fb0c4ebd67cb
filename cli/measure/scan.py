"""`firstflight scan`: runs other scanners with firstflight's lists and limits."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cli.shared.options import InputPath, egress
from firstflight.errors import InputError, UsageError
from firstflight.system import stdout, terminal

if TYPE_CHECKING:
    from firstflight.egress.permitted import Permitted
    from scanner.external.qscanner import ScanTarget
    from scanner.external.sweep import Sweep
    from scanner.external.zmap import Speaker

_ONLY = {
    "zmap": (
        "networks",
        "port",
        "ports",
        "cooldown",
        "max_targets",
        "seed",
        "interface",
        "source",
        "gateway_mac",
        "format_",
    ),
    "qscanner": ("targets", "resolver", "out", "vantage"),
}


@click.command(
    epilog="Example: firstflight scan --engine zmap --network 203.0.113.0/24 --contact me@example.org"
)
@click.option("--engine", type=click.Choice(["zmap", "qscanner"]), required=True, help="Scanner to run.")
@click.option("--program", metavar="PATH", help="Path of the scanner's program [zmap, qscanner].")
@click.option(
    "--rate",
    type=click.FloatRange(min=0.1),
    metavar="N",
    help="Maximum packets (zmap, 100) or connections (qscanner, 50) per second.",
)
@click.option(
    "--contact",
    default="",
    metavar="TEXT",
    help="How operators can reach you; required for public addresses.",
)
@egress
@click.option("--dry-run", is_flag=True, help="Print the plan; send nothing.")
@click.option(
    "--network", "networks", multiple=True, metavar="CIDR", help="zmap: IPv4 network to sweep (repeatable)."
)
@click.option("--port", type=click.IntRange(1, 65535), help="zmap: UDP port [443].")
@click.option(
    "--ports",
    callback=lambda *given: _ports(given[-1]),
    metavar="FIRST-LAST",
    help="zmap: source ports [61440-61455].",
)
@click.option(
    "--cooldown", type=click.IntRange(0, 600), metavar="SECONDS", help="zmap: wait for late answers [8]."
)
@click.option(
    "--max-targets",
    type=click.IntRange(min=1),
    metavar="N",
    help="zmap: maximum number of addresses to contact.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), metavar="N", help="zmap: seed of the order of addresses."
)
@click.option("--interface", metavar="NAME", help="zmap: interface to send on.")
@click.option("--source", metavar="IP", help="zmap: source address.")
@click.option("--gateway-mac", metavar="MAC", help="zmap: Ethernet address of the gateway.")
@click.option(
    "--format",
    "format_",
    type=click.Choice(["csv", "jsonl"]),
    help="zmap: a target list for probe and handshake (csv), or all details (jsonl) [csv].",
)
@click.option(
    "--targets", type=InputPath(), metavar="FILE", help="qscanner: CSV with header ip,domain,port, or names."
)
@click.option(
    "--resolver", metavar="RESOLVER", help="qscanner: resolver of names [first of /etc/resolv.conf]."
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="qscanner: new folder for its files."
)
@click.option("--vantage", metavar="NAME", help="qscanner: vantage point of the imported rows [qscanner].")
@click.pass_context
def command(context: click.Context, /, engine: str, **given: object) -> None:
    """Run another scanner with firstflight's lists and limits.

    zmap searches IPv4 networks for addresses that answer a forced Version Negotiation, and prints each when
    it answers. It sends one datagram per address and creates no state at the server. qscanner completes
    handshakes with the targets of a file. The results are imported as with `import qscanner`, and the last
    line is the id of the imported run.
    """
    for other, options in _ONLY.items():
        for name in options if other != engine else ():
            if given[name] not in (None, ()):
                raise UsageError(f"{_option(context, name)} is an option of --engine {other}")
    if given["rate"] is not None and not math.isfinite(float(str(given["rate"]))):
        raise UsageError("--rate: a number is expected")
    stdout.check_open()
    from firstflight.egress.permitted import Permitted

    permitted = Permitted(context.params["blocklists"], context.params["optouts"], context.params["allow"])
    if engine == "qscanner" and permitted.is_followed:
        raise UsageError(
            "qscanner has a list of targets, but the list of FIRSTFLIGHT_OPTOUT changes: "
            "nothing was sent; scan from a machine that is not a vantage point of a site"
        )
    (_sweep if engine == "zmap" else _handshakes)(context, permitted)


def _ports(text: str | None) -> str | None:
    """Check a range of source ports. It has at most 256, because all stay bound while ZMap runs."""
    if text is not None:
        first, dash, last = text.partition("-")
        if not (first.isdecimal() and (last.isdecimal() or not dash) and len(text) <= 11):
            raise UsageError(f"--ports {text}: expected a port or FIRST-LAST")
        if not 1024 <= int(first) <= int(last or first) <= min(65535, int(first) + 255):
            raise UsageError(f"--ports {text}: expected 1 to 256 ports between 1024 and 65535")
    return text


def _option(context: click.Context, name: str) -> str:
    return next(option.opts[0] for option in context.command.params if option.name == name)


def _sweep(context: click.Context, permitted: Permitted) -> None:
    from firstflight.egress.permitted import addresses_in
    from scanner.external import zmap

    sweep = _requested_sweep(context)
    spans = sweep.spans()
    if not sweep.contact and any(permitted.needs_contact(*span, 4) for span in spans):
        raise UsageError("--contact is required: some networks are outside --allow-net; nothing was sent")
    rate, count = sweep.fair_rate(permitted), addresses_in(spans)
    if rate < sweep.rate:
        terminal.echo(f"{rate} packets a second, not {sweep.rate:g}: 20 per /24 at most", err=True)
    if context.params["dry_run"]:
        seconds = min(count, sweep.max_targets or count) / rate
        blocked = count - addresses_in(permitted.permitted_ipv4(spans))
        terminal.echo(
            f"{count} addresses, {blocked} of them blocked; {rate} a second, {seconds:.0f} s; "
            "nothing was sent"
        )
        return
    show = _json if context.params["format_"] == "jsonl" else _csv()
    found = 0
    with contextlib.closing(zmap.run(sweep, permitted)) as speakers:
        for speaker in speakers:
            show(speaker)
            found += 1
    terminal.echo(f"{found} of {count} addresses answered", err=True)


def _requested_sweep(context: click.Context) -> Sweep:
    from scanner.external.sweep import Sweep

    given = context.params
    if not given["networks"]:
        raise UsageError("--engine zmap needs --network: name the networks to sweep")
    values = {
        "cooldown_s": given["cooldown"],
        **{
            name: given[name]
            for name in ("port", "rate", "ports", "max_targets", "seed", "interface", "source")
        },
        **{name: given[name] for name in ("gateway_mac", "program")},
    }
    return Sweep(
        networks=given["networks"],
        contact=given["contact"],
        **{name: value for name, value in values.items() if value is not None},
    )


def _csv() -> Callable[[Speaker], None]:
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(("ip", "domain", "port"))

    def show(speaker: Speaker) -> None:
        out.writerow((speaker.ip, "", speaker.port))
        sys.stdout.flush()

    return show


def _json(speaker: Speaker) -> None:
    versions = [f"0x{version:08x}" for version in speaker.versions]
    values = {"ip": speaker.ip, "port": speaker.port, "versions": versions, "ttl": speaker.ttl}
    terminal.echo(json.dumps(values | {"received_at": speaker.received_at}))


def _handshakes(context: click.Context, permitted: Permitted) -> None:
    from cli.store import imports
    from scanner.external import qscanner

    given = context.params
    if given["targets"] is None or given["out"] is None:
        raise UsageError("--engine qscanner needs --targets FILE and --out DIR")
    folder = given["out"].resolve()
    entered = folder.with_name(f"{folder.name}.input.csv")
    for path in (folder, entered):
        if path.exists():
            raise UsageError(f"{path} exists: name another --out")
    if not folder.parent.is_dir():
        raise UsageError(f"there is no folder {folder.parent} for --out")
    found_targets = _targets(given)
    is_foreign = any(permitted.address_needs_contact(target.ip) for target in found_targets)
    if not given["contact"] and is_foreign:
        raise UsageError("--contact is required: some targets are outside --allow-net; nothing was sent")
    written, blocked = qscanner.write_input(found_targets, permitted, entered)
    scan = qscanner.ScanOptions(folder, given["rate"] or 50, given["program"] or "qscanner")
    terminal.echo(f"{written} targets, {blocked} blocked", err=True)
    if given["dry_run"]:
        entered.unlink()
        terminal.echo(" ".join(qscanner.arguments(scan, entered)))
        return
    qscanner.run(scan, entered, written)
    context.invoke(imports.qscanner, folder=folder, vantage=given["vantage"] or "qscanner", out=None)


def _targets(given: dict[str, Any]) -> list[ScanTarget]:
    """Return the targets of the file; names are resolved.

    UsageError or InputError if the file or the options are wrong; then nothing was sent.
    """
    from cli.engines import addresses, name_lists
    from cli.engines.arguments import Arguments
    from scanner.external import qscanner

    path = given["targets"]
    if not name_lists.holds_names(path):
        return qscanner.targets(path)
    if not (given["contact"] or given["allow"]):
        raise UsageError("--contact is required: the owners of these servers need it; nothing was sent")
    name_list = name_lists.read(path)
    if name_list.rejected:
        line, reason = name_list.rejected[0]
        raise InputError(f"{path}: line {line}: {reason}; nothing was sent")
    if given["dry_run"]:
        raise UsageError(f"{path} lists names, and a dry run does not resolve names: omit --dry-run")
    lists = {"--blocklist": "blocklists", "--optout": "optouts", "--allow-net": "allow"}
    options = [(option, str(value)) for option, name in lists.items() for value in given[name]]
    options += [(f"--{name}", given[name]) for name in ("resolver", "contact") if given[name]]
    found = addresses.resolve(name_list.names, Arguments((), tuple(options)))
    for name, reason in found.without.items():
        terminal.echo(f"{name} has no address ({reason})", err=True)
    return [qscanner.ScanTarget(ip, domain, 443) for ip, domain in found.targets]
