"""Runs a watch: probes names at set times from all vantage points, in periods (`firstflight watch`)."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from orchestration.local.campaign import LocalCampaign
from orchestration.runner import run_together
from orchestration.stages import RunPlan

# A period's stages are started this long before its first slot. Source ports alternate, so the previous
# period may still wait for answers (scanner/watch/period.py).
LEAD_S = 8.0


@dataclass
class Watching(LocalCampaign):
    """The campaign for a watch run: as many periods as the manifest's `repetitions`, without gaps."""

    plan: RunPlan = RunPlan.WATCH
    _loading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def resume_hint(self) -> str:
        """The hint after a stop: missed periods cannot be repeated, but their rows can be loaded."""
        return f"load the results with: firstflight load {self.run.id}"

    async def run_all(self) -> None:
        """Run targets and AS data, then all periods. Raises CentreFailed; collects other failures."""
        await self.check_far()
        await self.centre()
        period_s, first_s = float(self.run.manifest["period_s"]), self._first_minute()
        last = int(self.run.manifest["repetitions"])
        await run_together(
            self._period(number, first_s + (number - 1) * period_s, period_s) for number in range(1, last + 1)
        )

    def _first_minute(self) -> float:
        """Return the next whole minute (seconds since 1970) that leaves time to start the processes."""
        minute_s = self.settings.watch.minute_s
        return -(-(time.time() + LEAD_S) // minute_s) * minute_s

    async def _period(self, number: int, begin_s: float, period_s: float) -> None:
        await asyncio.sleep(max(0.0, begin_s - LEAD_S - time.time()))
        begin = datetime.fromtimestamp(begin_s, UTC)
        self.console.print_line(f"period {number}: {period_s:g} s from {begin:%Y-%m-%d %H:%M:%S} UTC on")
        more = ["--period", f"{period_s:g}", "--start", begin.isoformat()]
        await run_together(
            self.measure(key, f"{key.vantage}, period {number}", more) for key in self.keys(number)
        )
        async with self._loading:
            await self.run_later_stages(number)
            await self.load(f"period {number}")
