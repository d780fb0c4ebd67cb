"""CAIDA's AS organisations in the lab: a directory page and quarterly files in both layouts of the real host.

`YYYYMMDD.as-org2info.txt.gz` has lines of fields separated by vertical bars, after `# format:` lines, with
the organisations first. `YYYYMMDD.as-org2info.jsonl.gz` has the same data as JSON objects. The organisations
are invented: one for each CDN of the lab, and `Lab Others` for the rest.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path

from lab.as_data.routeviews import write_index

HOST = "publicdata.caida.org"
FOLDER = Path("datasets") / "as-organizations"
DAYS = ("20240401", "20240701")
SOURCE = "LAB"


def write_tree(tree: Path, organisation_of: Mapping[int, str]) -> None:
    """Write the files of all DAYS below the document root `tree`, and the directory pages above them.

    `organisation_of` maps AS numbers to names. In the older file, all ASes belong to `Lab Others`.
    """
    folder = tree / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for day in DAYS:
        names = {asn: name if day == DAYS[-1] else "Lab Others" for asn, name in organisation_of.items()}
        for extension, text in (("txt", _text(names, day)), ("jsonl", _json_lines(names, day))):
            (folder / f"{day}.as-org2info.{extension}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    for path in (folder, *folder.parents):
        write_index(path, tree)
        if path == tree:
            break


def org_id(name: str) -> str:
    """Return the id of an organisation in the format of the registries: letters, then the registry."""
    return "".join(c for c in name.upper() if c.isalnum())[:12] + f"-{SOURCE}"


def _text(organisation_of: Mapping[int, str], day: str) -> str:
    lines = ["# name: AS organisations of the lab", "# format:org_id|changed|org_name|country|source"]
    lines += [f"{org_id(name)}|{day}|{name}|DE|{SOURCE}" for name in sorted(set(organisation_of.values()))]
    lines.append("# format:aut|changed|aut_name|org_id|opaque_id|source")
    lines += [
        f"{asn}|{day}|LAB-AS{asn}|{org_id(name)}||{SOURCE}" for asn, name in sorted(organisation_of.items())
    ]
    return "\n".join(lines) + "\n"


def _json_lines(organisation_of: Mapping[int, str], day: str) -> str:
    rows: list[dict[str, str]] = [
        {
            "organizationId": org_id(name),
            "changed": day,
            "name": name,
            "country": "DE",
            "source": SOURCE,
            "type": "Organization",
        }
        for name in sorted(set(organisation_of.values()))
    ]
    rows += [
        {
            "asn": str(asn),
            "changed": day,
            "name": f"LAB-AS{asn}",
            "opaqueId": "",
            "organizationId": org_id(name),
            "source": SOURCE,
            "type": "ASN",
        }
        for asn, name in sorted(organisation_of.items())
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)
