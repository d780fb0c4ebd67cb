"""Runs a crawl in this process: Scrapy with its own settings, once, since a reactor cannot run twice."""

from __future__ import annotations

import logging
from pathlib import Path

from scrapy.crawler import AsyncCrawlerProcess

from crawler.files import trust
from crawler.files.pace import Pace
from crawler.files.spider import FileSpider, Task
from firstflight.egress.user_agent import user_agent
from firstflight.errors import Interrupted


def run(task: Task, *, contact: str, pace: Pace, roots: Path | None) -> None:
    """Do all of `task`, with requests as `pace` lets them begin.

    Interrupted after SIGINT, SIGTERM or when `task.is_stopped`: names that are not done have no result.
    """
    pace.is_free, pace.is_ending = task.is_confirmed, task.is_ending
    trust.roots(roots)  # the handler reads them again, when it is too late for an error
    for library in ("scrapy", "twisted", "protego", "py.warnings"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    settings = {
        "LOG_ENABLED": False,
        "LOG_INSTALL_ROOT_HANDLER": False,
        "TELNETCONSOLE_ENABLED": False,
        "EXTENSIONS_BASE": {},
        "SPIDER_MIDDLEWARES_BASE": {},
        # No redirects, retries, cookies, caches, decompression or proxies that nobody asked for.
        "DOWNLOADER_MIDDLEWARES_BASE": {
            "crawler.files.robots_middleware.RobotsMiddleware": 100,
            "scrapy.downloadermiddlewares.defaultheaders.DefaultHeadersMiddleware": 400,
            "scrapy.downloadermiddlewares.useragent.UserAgentMiddleware": 500,
        },
        "DOWNLOAD_HANDLERS_BASE": {"https": "crawler.files.handler.Handler"},
        "DEFAULT_REQUEST_HEADERS": {"Accept": "*/*", "Accept-Encoding": "identity"},
        "USER_AGENT": user_agent(contact),
        "CONCURRENT_REQUESTS": 0,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0,  # the pace keeps it, and looks for the end meanwhile
        "DOWNLOAD_DELAY_JITTER": 0,
        "DOWNLOAD_MAXSIZE": 0,
        "DOWNLOAD_WARNSIZE": 0,
        "FIRSTFLIGHT_ROOTS": roots,
    }
    process = AsyncCrawlerProcess(settings)
    process.crawl(FileSpider, task=task, pace=pace)  # Scrapy copies what is in settings
    process.start(install_signal_handlers=False)
    if task.error is not None:
        raise task.error
    if task.signal is not None or task.is_stopped():
        raise Interrupted("interrupted; what was crawled is kept, and the same command goes on from there")
