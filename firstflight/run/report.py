"""A stage's report (report.json): state, counts, rejected input lines, outputs."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstflight import shard as shards
from firstflight.errors import UsageError
from firstflight.layout import StageKey
from firstflight.settings.types import VantageName
from firstflight.system.path_names import RelativeName

State = Literal["running", "done", "failed", "interrupted"]


class UnusedLine(BaseModel):
    """An input line that was not used, and the reason."""

    line: int  # from 1
    reason: str


class StageReport(BaseModel):
    """A stage's report, written when the stage starts and when it finishes (report.json)."""

    model_config = ConfigDict(extra="forbid")

    # These four determine the report's path.
    stage: str = Field(pattern=r"^[a-z_]{1,30}$")
    vantage: VantageName | None = None
    repetition: int | None = Field(default=None, ge=1)
    shard: str | None = None  # K/N; null and not written if the names are not divided
    state: State = "running"
    started_at: datetime
    ended_at: datetime | None = None
    pid: int
    tool_version: str
    rows_in: int | None = None  # null: unknown (the stage stopped before it counted)
    rows_out: int | None = None
    rejected: list[UnusedLine] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)  # stage's own, for example rows by outcome
    facts: dict[str, str | int | float | None] = Field(default_factory=dict)  # further values
    warnings: list[str] = Field(default_factory=list)
    outputs: dict[RelativeName, str] = Field(default_factory=dict)  # path within the run -> sha256
    message: str | None = None  # a failure's error message

    def key(self, run: str) -> StageKey | None:
        """Return the stage's key in the run with id `run`; `None` for a stage of the whole run."""
        if self.vantage is None or self.repetition is None:
            return None
        return StageKey(run, self.vantage, self.repetition, shards.parse(self.shard or str(shards.WHOLE)))

    @model_validator(mode="after")
    def _has_a_whole_key(self) -> StageReport:
        if (self.vantage is None) != (self.repetition is None):
            raise ValueError("vantage and repetition must both be set, or neither")
        if self.shard is not None:
            try:
                shards.parse(self.shard)
            except UsageError as error:
                raise ValueError(str(error)) from error
        return self
