"""A host of mirrors: nginx over TCP as on host `files`, and firstflight-files for each site with HTTP/3.

All files are in STATE/mirrors/HOST.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from firstflight.system import binaries
from lab.declared.mirror_sites import Mirror
from lab.declared.model import Service
from lab.hosts import file_host
from lab.hosts.certificates import Authority, issue

FOLDER = "mirrors"


def services(state: Path, host: str, sites: Sequence[Mirror], authority: Authority) -> list[Service]:
    """Write all files below STATE/mirrors/HOST and return the servers to run on `host`.

    FirstflightError if firstflight-files is not built.
    """
    folder = state / FOLDER / host
    result = [file_host.nginx(folder, f"{host}-nginx", host, sites, authority, as_root=os.geteuid() == 0)]
    for site in sites:
        if not site.http3:
            continue
        certificate = issue(authority, f"mirror-{site.label}", [site.name, f"www.{site.name}"])
        argv = [str(binaries.find("firstflight-files")), "--root", str(folder / "www" / site.label)]
        argv += ["--certificate", str(certificate.chain), "--key", str(certificate.key)]
        argv += ["--listen", f"{site.ip}:{file_host.PORT}"]
        result.append(Service(f"{site.label}-http3", host, tuple(argv), r"^READY$"))
    return result
