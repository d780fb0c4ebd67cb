"""The provenance of a run on its page: versions, seeds, hashes, lists, tables, settings."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A password in an address of a store, anywhere in a text.
_PASSWORD = re.compile(r"(://[^:/@\s\"]*):[^\s\"]*@")


@dataclass(frozen=True)
class RunProvenance:
    """The run's manifest and settings from the store; empty mappings if the store lacks them."""

    run: str
    name: str | None
    state: str | None  # when the run was loaded
    started_at: str | None
    tool_version: str | None
    manifest: Mapping[str, Any]
    settings: Mapping[str, Any]
    settings_text: str
    """Effective settings as indented JSON, without passwords."""

    @property
    def known(self) -> bool:
        """Whether the run's manifest is in the store."""
        return bool(self.manifest)

    @property
    def cities(self) -> dict[str, str]:
        """Vantage point -> city, for display."""
        return {
            str(vantage["name"]): str(vantage.get("city") or vantage["name"])
            for vantage in self.settings.get("vantage", [])
            if isinstance(vantage, dict) and "name" in vantage
        }

    @property
    def stages(self) -> list[Mapping[str, Any]]:
        """The manifest's entries, one per stage that started."""
        return [entry for entry in self.manifest.get("stages", []) if isinstance(entry, dict)]

    @property
    def warnings(self) -> list[str]:
        """The distinct warnings of the stages, each with the number of stages."""
        counts: dict[str, int] = {}
        for stage in self.stages:
            for warning in stage.get("warnings") or []:
                counts[str(warning)] = counts.get(str(warning), 0) + 1
        return [text if times == 1 else f"{text} ({times} stages)" for text, times in counts.items()]

    @property
    def hashes(self) -> dict[str, str]:
        """Output file -> SHA-256."""
        digests: dict[str, str] = {}
        for stage in self.stages:
            digests |= {str(path): str(digest) for path, digest in (stage.get("outputs") or {}).items()}
        return dict(sorted(digests.items()))

    def facts(self, coverage: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
        """Return the known (name, value) pairs of the page's table; `coverage`: rows of sql/coverage.sql."""
        as_data = self.settings.get("as_data") or {}
        targets = self.settings.get("targets") or {}
        probe = self.settings.get("probe") or {}
        window, settle = (_unit(self._stage_facts(key), "ms") for key in ("answer_window_ms", "settle_ms"))
        pairs: list[tuple[str, Any]] = [
            ("Run", self.run),
            ("Campaign", self.name),
            ("State when it was loaded", self.state),
            ("Begun", _minute(self.started_at)),
            ("First and last probe", _span(coverage)),
            ("Version of firstflight", ", ".join(_distinct(coverage, "tool_versions")) or self.tool_version),
            ("Seed", self.manifest.get("seed")),
            ("Target list", _joined(targets.get("source"), ", ".join(_distinct(coverage, "lists")),
                                    _of_date(targets.get("date")))),
            ("Routing table", _joined(as_data.get("rib"), _of_date(as_data.get("date")))),
            ("Resolver", ", ".join(_distinct(coverage, "resolvers"))),
            ("Rule set", ", ".join(_distinct(coverage, "rulesets"))),
            ("Probe template (SHA-256)", ", ".join(self._stage_facts("template_sha256"))),
            ("Answer window, settling time", _joined(window, settle)),
            ("Probes per second", ", ".join(self._stage_facts("rate"))),
            ("Attempts", probe.get("attempts")),
            ("Settings (SHA-256)", self.manifest.get("settings_sha256")),
        ]  # fmt: skip
        return [(name, str(value)) for name, value in pairs if value not in (None, "")]

    def _stage_facts(self, key: str) -> list[str]:
        values = {str(s["facts"][key]) for s in self.stages if key in (s.get("facts") or {})}
        return sorted(values)


def read(run: str, rows: Sequence[Mapping[str, Any]]) -> RunProvenance:
    """Return the provenance of `run` from the answer to sql/run.sql; only its id if there is no row."""
    if not rows:
        return RunProvenance(run, None, None, None, None, {}, {}, "")
    row = rows[0]
    settings = _mapping(row["settings"])
    text = json.dumps(settings, indent=2, ensure_ascii=False) if settings else ""
    return RunProvenance(
        run=run,
        name=row["name"] or None,
        state=row["state"],
        started_at=row["started_at"],
        tool_version=row["tool_version"] or None,
        manifest=_mapping(row["manifest"]),
        settings=settings,
        settings_text=without_passwords(text),
    )


def without_passwords(text: str) -> str:
    """Replace every USER:PASSWORD@ of an address in `text` by USER:***@."""
    return _PASSWORD.sub(r"\1:***@", text)


def _mapping(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _distinct(rows: Sequence[Mapping[str, Any]], column: str) -> list[str]:
    return sorted({str(value) for row in rows for value in row[column] if value is not None})


def _minute(text: str | None) -> str | None:
    return f"{text[:16]} UTC" if text else None


def _span(rows: Sequence[Mapping[str, Any]]) -> str | None:
    first = min((row["first_sent"] for row in rows if row["first_sent"]), default=None)
    last = max((row["last_sent"] for row in rows if row["last_sent"]), default=None)
    return f"{first[:19]} to {last[:19]} UTC" if first and last else None


def _joined(*parts: object) -> str:
    return ", ".join(str(part) for part in parts if part)


def _of_date(date: object) -> str:
    return f"of {date}" if date else ""


def _unit(values: Sequence[str], unit: str) -> str:
    return f"{' or '.join(values)} {unit}" if values else ""
