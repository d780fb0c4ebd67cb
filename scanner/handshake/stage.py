"""The handshake stage: draw names, complete a handshake with each, write what was seen.

Runs as `scanner/drawn.py` says, and takes no capture.
"""

from __future__ import annotations

from contextlib import ExitStack

from firstflight.cdn import rules as cdn_rules
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from scanner import drawn
from scanner.driver import process
from scanner.handshake import records

NAME = "handshake"
# The CDN rules in force, as the engine reads them.
RULES_FILE = "cdn_rules.json"
ENGINE = process.Engine("handshake engine", "what was done is kept, and --resume continues")


def stage(run: Run, key: StageKey) -> None:
    """Connect with the drawn share of the addresses that the resolve stage found for `key`.

    Reads dns_answer.parquet and as_data/; writes quic_handshake.parquet, certificate.parquet and
    http3_response.parquet into the stage's folder. Raises FirstflightError, UsageError if the settings do not
    enable it; SIGINT shuts down gracefully.
    """
    folder = run.layout.stage(NAME, key)

    def argv(_report: StageReport, _stack: ExitStack) -> list[str]:
        in_force = cdn_rules.load(cdn_rules.in_force(run.layout.as_data))
        files.write_text(folder / RULES_FILE, cdn_rules.as_json(in_force))
        return arguments(run, key)

    def write(targets: drawn.Drawn, report: StageReport, stopped: bool) -> None:
        records.write(run, key, targets.plan, targets.ruleset, report, targets.mapper, stopped)

    out = run.layout.handshakes(key)
    own = drawn.Stage(NAME, ENGINE, run.settings.probe.port, out, argv, write, cdn_by_answer=True)
    drawn.execute(run, key, own)


def arguments(run: Run, key: StageKey) -> list[str]:
    """Return the argument list of `firstflight-handshake` for a key, with its files in the stage's folder."""
    settings, handshake = run.settings, run.settings.handshake
    folder = run.layout.stage(NAME, key)
    options: process.Options = [
        *drawn.options(run, key, NAME),
        ("--ports", settings.ports_at(settings.vantage_named(key.vantage), shard=key.shard)),
        ("--cid-key", process.derive(str(run.manifest["cid_key"]), key, 16, NAME)),
        ("--verify", handshake.verify),
        ("--key-share", handshake.key_share),
        ("--version", handshake.version),
        ("--ech", handshake.ech),
        ("--sni", handshake.sni),
        ("--alpn", ",".join(handshake.alpn)),
        ("--path", handshake.path),
        ("--cdn-rules", folder / RULES_FILE),
    ]
    if handshake.roots is not None:
        options.append(("--roots", handshake.roots))
    second = ["--second"] * handshake.second
    return drawn.argument_list("firstflight-handshake", options, folder, *second)
