"""The handshake stage: sample names, complete a handshake with each, write a row for each.

It records no capture.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from firstflight.cdn import rules as cdn_rules
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from scanner.driver import process
from scanner.driver.arguments import Options, derive
from scanner.handshake import records
from scanner.sampled import SampledEngineStage

RULES_FILE = "cdn_rules.json"
"""The CDN rules in force, in the engine's format."""


def stage(run: Run, key: StageKey) -> None:
    """Connect to the sampled addresses that the resolve stage found for `key`.

    Read dns_answer.parquet and as_data/; write quic_handshake.parquet, certificate.parquet and
    http3_response.parquet to the stage's folder. Raise FirstflightError, or UsageError if the settings do not
    enable the stage. SIGINT shuts it down gracefully.
    """
    HandshakeStage(run, key).execute()


class HandshakeStage(SampledEngineStage):
    """The stage at one key."""

    name = "handshake"
    engine = process.EngineTexts("handshake engine")
    cdn_by_answer = True

    @property
    def out(self) -> Path:
        """quic_handshake.parquet."""
        return self.run.layout.handshakes(self.key)

    def arguments(self, _report: StageReport, _stack: ExitStack) -> list[str]:
        """Write the CDN rules for the engine. Return the engine's command line."""
        in_force = cdn_rules.load(cdn_rules.in_force(self.run.layout.as_data))
        files.write_text(self.folder / RULES_FILE, cdn_rules.as_json(in_force))
        return self.engine_arguments()

    def engine_arguments(self) -> list[str]:
        """Return the command line of `firstflight-handshake`, with the files in the stage's folder."""
        key, settings, handshake = self.key, self.run.settings, self.run.settings.handshake
        options: Options = [
            *self.shared_options(),
            ("--ports", settings.ports_at(settings.vantage_named(key.vantage), shard=key.shard)),
            ("--cid-key", derive(str(self.run.manifest["cid_key"]), key, 16, self.name)),
            ("--verify", handshake.verify),
            ("--key-share", handshake.key_share),
            ("--version", handshake.version),
            ("--ech", handshake.ech),
            ("--sni", handshake.sni),
            ("--alpn", ",".join(handshake.alpn)),
            ("--path", handshake.path),
            ("--cdn-rules", self.folder / RULES_FILE),
        ]
        if handshake.roots is not None:
            options.append(("--roots", handshake.roots))
        second = ["--second"] if handshake.second else []
        return self.command("firstflight-handshake", options, *second)

    def write(self, plan: pa.Table, ruleset: str, report: StageReport, stopped: bool) -> None:
        """Write the record files from the closed segments."""
        records.write(self.run, self.key, plan, ruleset, report, self.mapper, stopped)
