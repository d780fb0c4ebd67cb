"""Plans of the report page's figures: how to draw each figure, its data and its texts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from reports.figures import style
from reports.question import QueryAnswer


@dataclass(frozen=True)
class FigurePlan:
    """How to draw a figure in a `size`, its data as rows, and its texts.

    `name`: the identifier, and the base name of the files; `source`: the figure in a paper; `questions`: its
    answers, by the name of their SQL on the page.
    """

    name: str
    draw: Callable[..., Figure]
    data: list[dict[str, Any]]
    title: str
    source: str
    description: str
    questions: Mapping[str, QueryAnswer]


class PartWithFigures(ABC):
    """A part of the page's content that has figures."""

    @abstractmethod
    def figures(self, looks: Mapping[str, style.Look]) -> Iterator[FigurePlan]:
        """Yield the figures for which there is data. `looks`: colours and lines of CDNs."""
