"""Runs a crawl in this process with Scrapy. A process can run only one crawl: a reactor cannot restart."""

from __future__ import annotations

import logging
from pathlib import Path

from scrapy.crawler import AsyncCrawlerProcess

from crawler.files.fetching import trust
from crawler.files.fetching.pace import Pace
from crawler.files.spider import FileSpider, Task
from firstflight.egress.user_agent import user_agent
from firstflight.errors import Interrupted


def run(task: Task, *, contact: str, pace: Pace, roots: Path | None) -> None:
    """Do all of `task`. `pace` decides when requests start.

    Raise Interrupted on SIGINT or SIGTERM, or when `task.is_stopped`. Unfinished names then have no result.
    """
    pace.is_free, pace.is_ending = task.is_confirmed, task.is_ending
    trust.roots(roots)  # fail now: the handler reads them too late for an error
    for library in ("scrapy", "twisted", "protego", "py.warnings"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    settings = {
        "LOG_ENABLED": False,
        "LOG_INSTALL_ROOT_HANDLER": False,
        "TELNETCONSOLE_ENABLED": False,
        "EXTENSIONS_BASE": {},
        "SPIDER_MIDDLEWARES_BASE": {},
        # Disables Scrapy's redirects, retries, cookies, cache, decompression and proxies.
        "DOWNLOADER_MIDDLEWARES_BASE": {
            "crawler.files.fetching.robots_middleware.RobotsMiddleware": 100,
            "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware": 400,
            "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": 500,
        },
        "DOWNLOAD_HANDLERS_BASE": {"https": "crawler.files.fetching.handler.Handler"},
        "DEFAULT_REQUEST_HEADERS": {"Accept": "*/*", "Accept-Encoding": "identity"},
        "USER_AGENT": user_agent(contact),
        "CONCURRENT_REQUESTS": 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0,  # the pace does this, and checks for a stop while it waits
        "DOWNLOAD_DELAY_JITTER": 0,
        "DOWNLOAD_MAXSIZE": 0,
        "DOWNLOAD_WARNSIZE": 0,
        "FIRSTFLIGHT_ROOTS": roots,
    }
    process = AsyncCrawlerProcess(settings)
    process.crawl(FileSpider, task=task, pace=pace)  # not in settings, because Scrapy copies those
    process.start(install_signal_handlers=False)
    if task.error is not None:
        raise task.error
    if task.signal is not None or task.is_stopped():
        raise Interrupted("interrupted; finished names are kept, and the same command continues")
