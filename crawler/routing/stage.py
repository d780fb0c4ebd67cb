"""The `as_data` stage: routing table with origin ASes, CDN map and CDN rules in force, and AS organisations.

Stores them in the run: a pyasn database for the other stages, and record files for the store.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from crawler import https
from crawler.routing import as2org, as2org_plus, as_records, cdn_map, rib, routeviews
from firstflight.as_map import AS_DATA_FILE, CDN_MAP_FILE, RIB_FILE
from firstflight.cdn import rules as cdn_rules
from firstflight.errors import InputError
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import AsData
from firstflight.system import files

# Part of the cache key. Increase it when the rules of firstflight-rib change.
RULES = 2


@dataclass(frozen=True)
class Source:
    """An input file. `url` is `None` for a local file."""

    file: str
    url: str | None
    sha256: str
    bytes: int


def stage(run: Run) -> None:
    """Write RUN/as_data: rib.pyasn, cdn_map.toml, cdn_rules.toml, as_data.json (sources, hashes, counts).

    Also write as_prefix.parquet and, if the settings name a source of AS organisations, as_org.parquet.

    Raise FetchError if a file cannot be fetched, InputError if a file cannot be read (no part of it is used),
    and UsageError if a CDN map or a file of CDN rules is invalid.
    """
    settings = run.settings.as_data
    with run.stage("as_data") as report:
        folder = run.layout.as_data
        maps = (settings.cdn_map or cdn_map.TABLE_5, *settings.cdn_map_extra)
        cdn_of = cdn_map.load(settings.cdn_map, settings.cdn_map_extra)
        rule_files = (*settings.cdn_rules_extra, settings.cdn_rules or cdn_rules.DEFAULT)
        rules = cdn_rules.load(settings.cdn_rules, settings.cdn_rules_extra)
        session = https.Session(run.settings.network.ca_bundle, run.settings.campaign.contact, folder)
        tables = _tables(settings, session)
        sources = [_source(path, url) for path, url in tables]
        paths = [path for path, _ in tables]
        database, summary = _converted(paths, sources, settings.cache_dir, folder)
        organisations = _organisations(settings, session)
        if settings.cdn_by == "organisation":
            assert organisations is not None  # settings check it
            cdn_of = cdn_map.by_organisation(cdn_of, organisations.of)
        with files.replacing(folder / RIB_FILE) as part:
            shutil.copyfile(database, part)
        files.write_text(folder / CDN_MAP_FILE, cdn_map.render(cdn_of, maps))
        files.write_text(folder / cdn_rules.RULES_FILE, cdn_rules.render(rules, rule_files))
        files.write_json(
            folder / AS_DATA_FILE,
            {
                "sources": [asdict(source) for source in sources],
                "date": None if settings.date is None else str(settings.date),
                **summary,
                "rib_sha256": files.sha256_of(folder / RIB_FILE),
                "cdn_map_sha256": files.sha256_of(folder / CDN_MAP_FILE),
                "cdn_map_sources": _hashed(maps),
                "cdn_rules_sha256": files.sha256_of(folder / cdn_rules.RULES_FILE),
                "cdn_rules_sources": _hashed(rule_files),
                "cdn_by": settings.cdn_by,
                "as2org": None if organisations is None else asdict(organisations.source),
                "as2org_plus": _plus_of(organisations),
            },
        )
        table_at = datetime.fromisoformat(summary["dumped_at"])
        as_records.write_prefixes(folder / RIB_FILE, table_at, cdn_of, folder / as_records.PREFIX_FILE)
        outputs = [RIB_FILE, CDN_MAP_FILE, cdn_rules.RULES_FILE, AS_DATA_FILE, as_records.PREFIX_FILE]
        _fill(report, summary)
        if organisations is not None:
            by_asn = organisations.of
            as_records.write_organisations(
                by_asn, table_at, organisations.name, folder / as_records.ORGANISATION_FILE
            )
            outputs.append(as_records.ORGANISATION_FILE)
            unknown = sum(entry.organisation is None for entry in by_asn.values())
            report.counts |= {"as_orgs": len(by_asn), "as_orgs_unknown": unknown}
        else:
            (folder / as_records.ORGANISATION_FILE).unlink(missing_ok=True)
        for name in outputs:
            run.add_output(report, folder / name)


@dataclass(frozen=True)
class Organisations:
    """The organisation of each AS, and the sources. `plus`: the file of further groups, if there is one."""

    source: Source
    plus: Source | None
    of: Mapping[int, as2org.Organisation]

    @property
    def name(self) -> str:
        """The names of the files."""
        return self.source.file if self.plus is None else f"{self.source.file}+{self.plus.file}"


def _plus_of(organisations: Organisations | None) -> dict[str, Any] | None:
    plus = None if organisations is None else organisations.plus
    return None if plus is None else asdict(plus)


def _organisations(settings: AsData, session: https.Session) -> Organisations | None:
    url: str | None = None
    if settings.as2org == "caida":
        assert settings.as2org_date is not None  # settings check it
        path, url = as2org.fetch(settings.as2org_date, settings.as2org_cache_dir, session)
    elif settings.as2org_file is not None:
        path = settings.as2org_file
    else:
        return None
    source = _source(path, url)
    found = as2org.read(path)
    if settings.as2org_plus is None:
        return Organisations(source, None, found)
    merged = as2org_plus.merged(found, as2org_plus.read(settings.as2org_plus))
    return Organisations(source, _source(settings.as2org_plus, None), merged)


def _source(path: Path, url: str | None) -> Source:
    return Source(path.name, url, files.sha256_of(path), path.stat().st_size)


def _hashed(paths: Sequence[Path]) -> list[dict[str, str]]:
    return [{"file": path.name, "sha256": files.sha256_of(path)} for path in paths]


def _tables(settings: AsData, session: https.Session) -> list[tuple[Path, str | None]]:
    if settings.rib == "file":
        return [(path, None) for path in settings.files]
    assert settings.date is not None  # settings check it
    return [routeviews.fetch(settings.date, family, settings.cache_dir, session) for family in (4, 6)]


def _converted(
    paths: Sequence[Path], sources: Sequence[Source], cache_dir: Path, folder: Path
) -> tuple[Path, dict[str, Any]]:
    """Return the pyasn database of these tables, and the counts. Convert the tables unless they are cached.

    `folder`: for the progress.
    """
    key = hashlib.sha256("\n".join([f"rules {RULES}", *(s.sha256 for s in sources)]).encode()).hexdigest()
    database = cache_dir / "pyasn" / f"{key}.pyasn"
    notes = database.with_suffix(".json")
    if database.is_file() and notes.is_file():
        return database, files.read_json(notes)
    with files.replacing(database) as part:
        try:
            names = ", ".join(source.url or source.file for source in sources)
            summary = rib.convert(paths, part, names, folder)
        except InputError as error:
            for path, source in zip(paths, sources, strict=True):
                if source.url is not None and str(path) in str(error):
                    path.unlink()  # downloaded: the next attempt fetches it again, possibly complete
            raise
        if not summary["prefixes_v4"] + summary["prefixes_v6"]:
            raise InputError(
                f"no prefix with an origin AS is in {', '.join(map(str, paths))} ({summary['counts']})"
            )
    files.write_json(notes, summary)
    return database, summary


def _fill(report: StageReport, summary: dict[str, Any]) -> None:
    report.rows_in = summary["counts"]["records"]
    report.rows_out = summary["prefixes_v4"] + summary["prefixes_v6"]
    report.counts = {key: value for key, value in summary["counts"].items() if key != "records"}
    for family in ("v4", "v6"):
        if summary[f"prefixes_{family}"] == 0:
            report.warnings.append(
                f"the routing table has no IP{family} prefix; asn and cdn will be null there"
            )
