"""The as_data stage's part of the dry run."""

from __future__ import annotations

from crawler import https
from crawler.routing import cdn_map
from firstflight.run.outline import NOTHING, Known, Outline
from firstflight.settings import Settings, Vantage


def outline(settings: Settings, known: Known, vantage: Vantage | None) -> Outline:  # noqa: ARG001
    """Return the sources of the routing table and of the AS organisations.

    Raise UsageError for an invalid CDN map.
    """
    data = settings.as_data
    cdns = set(cdn_map.load(data.cdn_map, data.cdn_map_extra).values())
    lines = [_routing_table(settings)]
    if data.as2org is not None:
        origin = data.as2org_file or f"CAIDA, the newest up to {data.as2org_date}"
        joined = "" if data.as2org_plus is None else f", joined by the groups in {data.as2org_plus}"
        lines.append(f"AS organisations: {origin}{joined}")
    if data.cdn_by == "organisation":
        lines.append("CDNs: all ASes of the organisations in the CDN map (as_data.cdn_by)")
    known = Known(known.names, len(cdns))
    if data.rib == "file" and data.as2org != "caida":
        return Outline(tuple(lines), traffic=NOTHING, sections=("as_data",), known=known)
    unknown = (
        "tables are fetched, unless they are in the cache; each is at most "
        f"{https.MAX_TABLE_BYTES / 2**30:g} GiB"
    )
    return Outline(tuple(lines), unknown=unknown, sections=("as_data", "network"), known=known)


def _routing_table(settings: Settings) -> str:
    data = settings.as_data
    if data.rib == "file":
        return f"routing table: {', '.join(str(path) for path in data.files)}"
    return f"routing table: RouteViews, {data.date}"
