"""The pages of panels: overview, CDN, name, vantage point, watch, downloads, handshakes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from firstflight.errors import UsageError
from reports import panel as panels
from reports.dashboard import html
from reports.dashboard.asking.asker import Asker, Question
from reports.dashboard.asking.faults import STATUS, NoAnswer
from reports.dashboard.asking.newest import StoreState, Watcher
from reports.dashboard.pages import filters, panel_table, run_reports
from reports.dashboard.pages.page_cache import CachedPage, PageCache
from reports.panel import Panel

TITLES = {
    "overview": "Instant ACKs across days and vantage points",
    "watch": "Watches",
    "downloads": "Downloads",
    "handshakes": "Handshakes",
}
# Page -> the message if the store has no rows for it.
_EMPTY = {
    "watch": "no watch has been loaded into the store: run `firstflight watch`",
    "downloads": "no downloads have been loaded into the store: enable them in a campaign's settings",
    "handshakes": "no handshakes have been loaded into the store: enable them in a campaign's settings",
}


@dataclass(frozen=True)
class ShownPanel:
    """A panel on a page: the table or an error, and the query's parameters as part of an address."""

    panel: Panel
    link: str
    table: panel_table.PanelTable | None = None
    fault: str = ""
    status: int = 200

    @property
    def of_newest(self) -> bool:
        """Whether the panel is about the newest run, whatever the filters are."""
        return self.panel.parameters.get("run") == "newest"


class Pages:
    """Answers the pages, from the store or from the cache."""

    def __init__(self, asker: Asker, watcher: Watcher, page_cache: PageCache) -> None:
        self._asker = asker
        self._watcher = watcher
        self._page_cache = page_cache

    async def overview(self, request: Request) -> Response:
        """`/`: shares by CDN, changes, probes and coverage by vantage point."""
        return await self._page(request, "overview", {})

    async def cdn(self, request: Request) -> Response:
        """`/cdn/NAME`: delays, shares, outcomes and amplification for a CDN."""
        return await self._page(request, "cdn", {"cdn": request.path_params["name"]})

    async def name(self, request: Request) -> Response:
        """`/name/DOMAIN`: the history and the addresses for a name; `/name/?domain=...` redirects there."""
        return await self._page(request, "name", {"domain": request.path_params["name"]})

    async def vantage(self, request: Request) -> Response:
        """`/vantage/NAME`: runs, losses, clock, lateness and pauses for a vantage point."""
        return await self._page(request, "vantage", {"vantage": request.path_params["name"]})

    async def watch(self, request: Request) -> Response:
        """`/watch`: Figures 9 and 15, and the share of planned probes that was sent."""
        return await self._page(request, "watch", {})

    async def downloads(self, request: Request) -> Response:
        """`/downloads`: goodput and success of downloads."""
        return await self._page(request, "downloads", {})

    async def handshakes(self, request: Request) -> Response:
        """`/handshakes`: how handshakes end."""
        return await self._page(request, "handshakes", {})

    async def _page(self, request: Request, page: str, fixed: Mapping[str, str]) -> Response:
        try:
            newest = await self._watcher.newest()
        except NoAnswer as error:
            raise HTTPException(STATUS[error.fault], str(error)) from error
        _refuse_unknown(page, fixed, newest)
        try:
            page_filters = filters.parsed(page, request.query_params.multi_items(), newest)
        except UsageError as error:
            raise HTTPException(STATUS["parameter"], str(error)) from error

        async def make() -> CachedPage:
            return await self._made(page, fixed, page_filters, newest)

        address = f"{request.url.path}?{urlencode(sorted(page_filters.given.items()))}"
        cached_page = await self._page_cache.page(address, newest.stamp, make)
        return HTMLResponse(cached_page.content, cached_page.status)

    async def _made(
        self, page: str, fixed: Mapping[str, str], parsed_filters: filters.Filters, newest: StoreState
    ) -> CachedPage:
        page_filters = {**parsed_filters.asked, **fixed}
        if page in _EMPTY and page not in newest.tables:
            shown: Sequence[ShownPanel] = []
        else:
            # Panels with the same query and values share its answer.
            answers: dict[tuple[str, str], asyncio.Task[bytes]] = {}
            try:
                shown = await asyncio.gather(
                    *(self._shown(panel, page_filters, answers, newest) for panel in panels.of_page(page))
                )
            finally:
                for task in answers.values():
                    task.cancel()
        summary = await self._summary(newest) if page == "overview" else []
        if (
            page == "name"
            and not parsed_filters.given
            and all(page_panel.table and not page_panel.table.rows for page_panel in shown)
        ):
            raise HTTPException(404, f"the store has no probes of the name {fixed['domain']!r}")
        status = max((page_panel.status for page_panel in shown), default=200)
        rendered = html.render(
            "panels.html",
            page=page,
            here={"overview": "/"}.get(page, f"/{page}"),
            title=TITLES.get(page) or next(iter(fixed.values())),
            fixed=fixed,
            chosen=parsed_filters,
            newest=newest,
            shown=shown,
            summary=summary,
            empty=_EMPTY.get(page, ""),
            options={"cdn": newest.cdns, "vantage": newest.vantages, "step": parsed_filters.steps},
            to=filters.address,
            report=run_reports.address,
        )
        return CachedPage(rendered.encode(), status)

    async def _summary(self, newest: StoreState) -> list[panel_table.Number]:
        """Return the numbers of the newest run; empty without a run, or without an answer."""
        question = Question("run_summary", {"run": "newest"}, "JSONEachRow", newest.rolled_up)
        try:
            answer = await self._asker.answer(question)
        except NoAnswer:
            return []
        return panel_table.summary(json.loads(answer)) if answer.strip() else []

    async def _shown(
        self,
        panel: Panel,
        page_filters: Mapping[str, str],
        answers: dict[tuple[str, str], asyncio.Task[bytes]],
        newest: StoreState,
    ) -> ShownPanel:
        given = panel.given(page_filters)
        shown = ShownPanel(panel, urlencode(given))
        key = (panel.query, shown.link)
        if key not in answers:
            question = Question(panel.query, given, "JSONCompact", newest.rolled_up)
            answers[key] = asyncio.create_task(self._asker.answer(question))
        try:
            answer = await answers[key]
        except NoAnswer as error:
            return replace(shown, fault=str(error), status=STATUS[error.fault])
        return replace(shown, table=await asyncio.to_thread(_table, panel, answer, {**page_filters, **given}))


def _table(panel: Panel, answer: bytes, page_filters: Mapping[str, str]) -> panel_table.PanelTable:
    return panel_table.table(panel, json.loads(answer), page_filters)


def _refuse_unknown(page: str, fixed: Mapping[str, str], newest: StoreState) -> None:
    """Raise HTTPException for a CDN or vantage point that the store has no probes of."""
    known = {"cdn": newest.cdns, "vantage": newest.vantages}
    kind = {"cdn": "CDN", "vantage": "vantage point"}
    if page in known and fixed[page] not in known[page]:
        raise HTTPException(404, f"the store has no probes of the {kind[page]} {fixed[page]!r}")
