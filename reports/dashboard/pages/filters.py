"""A page's filters, all in its address: days, CDN, vantage point, rank, length of a period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import quote, urlencode

from firstflight.errors import UsageError
from reports import query
from reports.dashboard.asking.newest import StoreState

FIELDS: Mapping[str, Sequence[str]] = {
    "overview": ("since", "until", "vantage", "cdn", "top", "step"),
    "cdn": ("since", "until", "vantage", "top", "step"),
    "name": ("since", "until", "vantage", "step"),
    "vantage": ("since", "until", "cdn", "step"),
    "watch": ("since", "until", "vantage", "cdn", "step"),
    "downloads": ("since", "until", "vantage", "cdn", "step"),
    "handshakes": ("since", "until", "vantage", "cdn", "step"),
}
"""Page -> its filters, in the order of the form."""
STEPS = ("day", "week", "month")
WATCH_STEPS = ("hour", "day")
_TYPES = {"since": "Date", "until": "Date", "top": "UInt32", "vantage": "String", "cdn": "String"}
_LONGEST = 200
_DAYS = {"watch": 7}
# Pages without probes; their rows have separate ranges of days.
_WITHOUT_PROBES = ("watch", "downloads", "handshakes")
_YEAR = 365
# Without a step in the address: days of up to a quarter, weeks of up to two years; hours of two weeks.
_MOST_DAYS, _MOST_WEEKS_DAYS, _MOST_HOURS_DAYS = 92, 731, 14


@dataclass(frozen=True)
class Filters:
    """A page's filters: as given in its address, and as passed to its queries."""

    page: str
    given: Mapping[str, str]
    asked: Mapping[str, str]

    @property
    def fields(self) -> Sequence[str]:
        """The names of the page's filters."""
        return FIELDS[self.page]

    @property
    def steps(self) -> Sequence[str]:
        """The lengths for a period that the page offers."""
        return WATCH_STEPS if self.page == "watch" else STEPS

    def query_string(self, page: str) -> str:
        """Return the query string for another page with the same filters: empty, or `?...`."""
        shared = {key: value for key, value in self.given.items() if key in FIELDS[page]}
        return f"?{urlencode(shared)}" if shared else ""


def parsed(page: str, items: Sequence[tuple[str, str]], newest: StoreState) -> Filters:
    """Return the filters in an address; empty ones have their defaults. UsageError for an invalid filter."""
    given: dict[str, str] = {}
    for key, value in items:
        if key not in FIELDS[page]:
            raise UsageError(f"this page has no filter {key!r}: it has {', '.join(FIELDS[page])}")
        if key in given:
            raise UsageError(f"the filter {key} is given twice: write it once")
        if value:
            given[key] = value
    for key, value in given.items():
        if len(value) > _LONGEST:
            raise UsageError(f"the filter {key} is longer than {_LONGEST} characters: no such name exists")
        if key in _TYPES:
            query.Parameter(key, _TYPES[key], "").literal(value)
    steps = WATCH_STEPS if page == "watch" else STEPS
    if given.get("step", steps[0]) not in steps:
        raise UsageError(f"step={given['step']}: {' or '.join(steps)} expected")
    until = date.fromisoformat(given["until"]) if "until" in given else _last(page, newest)
    since = date.fromisoformat(given["since"]) if "since" in given else _first(page, until, newest)
    if since > until:
        raise UsageError(f"since={since} is after until={until}: exchange them")
    parameters = dict(given) | {"since": str(since), "until": str(until)}
    parameters.setdefault("step", _step(page, (until - since).days + 1))
    return Filters(page, given, parameters)


def _today() -> date:
    return datetime.now(UTC).date()


def _last(page: str, newest: StoreState) -> date:
    """Return the default last day: the last one with rows for the page, else with any rows."""
    return newest.days[page][1] if page in newest.days else newest.last_day or _today()


def _first(page: str, until: date, newest: StoreState) -> date:
    """Return the default first day: for watches a week, for a name everything, else a year."""
    if page in _DAYS:
        return until - timedelta(days=_DAYS[page] - 1)
    year = until - timedelta(days=_YEAR - 1)
    if page in _WITHOUT_PROBES:
        # Rows without an entry in the load log have unknown days.
        first = newest.days[page][0] if page in newest.days else year
    else:
        first = newest.first_day or until
    oldest = min(first, until)
    return oldest if page == "name" else max(oldest, year)


def _step(page: str, days: int) -> str:
    if page == "watch":
        return "hour" if days <= _MOST_HOURS_DAYS else "day"
    return "day" if days <= _MOST_DAYS else "week" if days <= _MOST_WEEKS_DAYS else "month"


def address(page: str, name: str) -> str:
    """Return the address of the page for a CDN, name or vantage point; `page` has a final slash."""
    return page + quote(name, safe="")
