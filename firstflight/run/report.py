"""What a stage did, and what became of each line of its input: its report.json."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from firstflight.layout import StageKey
from firstflight.settings.types import VantageName
from firstflight.system.path_names import RelativeName

State = Literal["running", "done", "failed", "interrupted"]


class Rejected(BaseModel):
    """An input line that was not used, and why."""

    line: int  # from 1
    reason: str


class StageReport(BaseModel):
    """What one stage did: written when it starts and when it ends (report.json)."""

    model_config = ConfigDict(extra="forbid")

    # These three say where the report lies.
    stage: str = Field(pattern=r"^[a-z_]{1,30}$")
    vantage: VantageName | None = None
    repetition: int | None = Field(default=None, ge=1)
    state: State = "running"
    started_at: datetime
    ended_at: datetime | None = None
    pid: int
    tool_version: str
    rows_in: int | None = None  # null = not known (the stage ended before it counted)
    rows_out: int | None = None
    rejected: list[Rejected] = Field(default_factory=list)
    counts: dict[str, int] = Field(default_factory=dict)  # stage's own, for example rows by outcome
    facts: dict[str, str | int | float | None] = Field(default_factory=dict)  # what else should be known
    warnings: list[str] = Field(default_factory=list)
    outputs: dict[RelativeName, str] = Field(default_factory=dict)  # path within the run -> sha256
    message: str | None = None  # the sentence of a failure

    def key(self, run: str) -> StageKey | None:
        """Key of the stage in the run of that id; None for a stage of the whole run."""
        if self.vantage is None or self.repetition is None:
            return None
        return StageKey(run, self.vantage, self.repetition)

    @model_validator(mode="after")
    def _has_a_whole_key(self) -> StageReport:
        if (self.vantage is None) != (self.repetition is None):
            raise ValueError("vantage and repetition stand there together, or neither")
        return self
