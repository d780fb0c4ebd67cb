"""A printed row's CDN: from the AS data of this machine's runs, else from the rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from firstflight.as_map import OTHERS, RIB_FILE, Mapper
from firstflight.cdn.methods import Methods
from firstflight.cdn.rules import load
from firstflight.errors import FirstflightError
from firstflight.run.run import Run


class Cdns:
    """Names CDNs; `rules` is a file of rules, `None` for the built-in ones."""

    def __init__(self, rules: Path | None = None) -> None:
        self._methods = Methods(load(rules))
        self._mapper = _newest()

    def of(self, row: Mapping[str, Any], aliases: Sequence[str]) -> str | None:
        """Return a row's CDN, or `None` if no method finds one.

        In this order: origin AS of the address, certificate, response, name and its `aliases`.
        """
        cdns = [
            None if self._mapper is None else self._mapper.origin(row["ip"]).cdn,
            row.get("cdn_by_certificate"),
            row.get("cdn_by_header"),
            self._methods.by_names([row["domain"], *aliases]),
        ]
        return next((cdn for cdn in cdns if cdn not in (None, OTHERS)), None)


def _newest() -> Mapper | None:
    """Return the AS data of the newest run that has them; `None` without such a run, or if unreadable."""
    for run in reversed(Run.all()):
        if (run.layout.as_data / RIB_FILE).is_file():
            with suppress(FirstflightError):
                return Mapper(run.layout.as_data)
            return None
    return None
