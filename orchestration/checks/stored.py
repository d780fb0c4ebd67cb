"""Checks of lists, ceilings and the store."""

from __future__ import annotations

import os
from pathlib import Path

import store
from firstflight.egress import current, lists
from firstflight.errors import FirstflightError
from firstflight.settings import Settings
from orchestration.checks.finding import Finding, failed, not_checked, ok, warning
from orchestration.checks.network import SENDS_NOTHING
from orchestration.site.ceilings import VARIABLE, of_this_machine
from store import EmbeddedLocation, Store
from store.errors import StoreUnreachable
from store.location import check_folder
from store.tables import migrate


def rules(settings: Settings) -> Finding:
    """Return whether all block and opt-out lists are readable, also the machine's."""
    name = "lists"
    blocklists, optouts = settings.probe.blocklist, settings.probe.optout
    try:
        lists.check(blocklists, optouts)
        value = current.machine_list()
        followed = value is not None and value.startswith(current.FOLLOWED)
        machine = None if value is None else Path(value.removeprefix(current.FOLLOWED))
        if machine is not None:
            lists.check((), (machine,))
    except FirstflightError as error:
        return failed(name, str(error))
    count = len(blocklists) + len(optouts) + (machine is not None)
    if machine is None and not optouts:
        return warning(
            name,
            f"{count} readable, and no opt-out list is in force",
            f"name one by probe.optout or {current.VARIABLE}",
        )
    if machine is not None and followed:
        age_s = current.age(machine)
        if age_s is None or age_s >= current.BEGIN_FOR_S:
            return warning(
                name,
                f"{machine} is not confirmed by the centre, and nothing is sent until it is",
                "start `firstflight optout follow`, and see `firstflight optout status`",
            )
    return ok(name, f"{count} readable")


def ceilings() -> Finding:
    """Return whether this machine's limits for runs from the centre are readable."""
    name = "ceilings"
    try:
        of_this_machine()
    except FirstflightError as error:
        return failed(name, str(error))
    file = os.environ.get(VARIABLE)
    return ok(name, "the defaults apply" if file is None else f"{file} is readable")


def is_named() -> bool:
    """Return whether the environment names a store, as at a vantage point that loads its results itself."""
    return any(os.environ.get(name) for name in ("FIRSTFLIGHT_STORE", "FIRSTFLIGHT_STORE_FILE"))


def load_target(settings: Settings, *, may_send: bool) -> Finding:
    """Return whether results can be loaded, without starting the engine of an embedded store."""
    name = "store"
    try:
        location = store.find(settings.store.url)
        if isinstance(location, EmbeddedLocation):
            return _embedded(location)
        if not may_send:
            return not_checked(name, SENDS_NOTHING)
        with store.open_store(settings.store.url, wait_s=1.0) as db:
            return _schema(db)
    except StoreUnreachable as error:
        # It may be there when the results are.
        return warning(name, str(error), "results are kept until `firstflight load`")
    except FirstflightError as error:
        return failed(name, str(error), "set store.url or FIRSTFLIGHT_STORE")


def contents(settings: Settings) -> Finding:
    """Open the store and compare its schema. An embedded store confines this process permanently."""
    name = "store"
    try:
        location = store.find(settings.store.url)
        if isinstance(location, EmbeddedLocation) and location.empty:
            return _embedded(location)
        with store.open_store(settings.store.url, wait_s=1.0) as db:
            return _schema(db)
    except FirstflightError as error:
        return failed(name, str(error), "set store.url or FIRSTFLIGHT_STORE, or repair the store")


def _embedded(location: EmbeddedLocation) -> Finding:
    """Return whether a store is in a folder, or can be made there, without opening it."""
    check_folder(location)
    existing = next(path for path in (location.path, *location.path.parents) if path.is_dir())
    if not os.access(existing, os.W_OK | os.X_OK):
        return failed(
            "store", f"{existing} is not writable for this user", "set FIRSTFLIGHT_STORE, or run as its owner"
        )
    return ok(
        "store",
        f"the first load makes {location.public_url}"
        if location.empty
        else f"{location.public_url} is there",
    )


def _schema(db: Store) -> Finding:
    steps = len(migrate.pending(db))
    if not migrate.applied(db):
        return ok("store", f"{db.location} has no tables yet; the first load makes them")
    text = f"{db.location} answers"
    changes = "its schema is current" if not steps else f"the next load applies {steps} changes"
    return ok("store", f"{text}; {changes}")
