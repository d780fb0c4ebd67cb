"""The pages of the named queries: the list, a form and a table for each, and the answer as a file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from firstflight.errors import UsageError
from reports import query
from reports.dashboard import html
from reports.dashboard.asking.asker import Asker, Question
from reports.dashboard.asking.faults import STATUS, NoAnswer
from schemas.sql import Dialect
from store import DATABASE

MOST_SHOWN = 500
"""Maximum number of rows on an answer's page; the files have all rows."""
# Ending of the address -> (format of the store, media type).
_FILES = {
    ".csv": ("CSVWithNames", "text/csv; charset=utf-8"),
    ".parquet": ("Parquet", "application/vnd.apache.parquet"),
}


async def index(request: Request) -> Response:  # noqa: ARG001
    """`/queries`: every named query with its question."""
    return HTMLResponse(
        html.render("queries.html", here="/queries", queries=[query.load(name) for name in query.names()])
    )


async def page(request: Request) -> Response:
    """`/queries/NAME[.csv|.parquet]`: the answer to the parameters in the address.

    An empty parameter has the default value, except texts, which may be empty. HTTPException for an unknown
    query and, for a file, on any failure; the page shows the form and the error.
    """
    name = request.path_params["name"]
    ending = next((suffix for suffix in _FILES if name.endswith(suffix)), "")
    name = name.removesuffix(ending)
    if name not in query.names():
        raise HTTPException(404, f"there is no query {name!r}: the list of queries has all names")
    named_query = query.load(name)
    asker: Asker = request.app.state.asker
    given: Mapping[str, str] = {}
    text = fault = ""
    status = 200
    content = b""
    output_format, media_type = _FILES.get(ending, ("JSONCompact", "text/html"))
    try:
        given = parameters(named_query, request.query_params.multi_items())
        if ending or not missing_parameters(named_query, given):
            text = named_query.rendered(given, Dialect(DATABASE))
            content = await asker.answer(Question(name, given, output_format))
    except UsageError as error:
        status, fault = STATUS["parameter"], str(error)
    except NoAnswer as error:
        status, fault = STATUS[error.fault], str(error)
    if ending:
        if fault:
            raise HTTPException(status, fault)
        attached = {"Content-Disposition": f'attachment; filename="{name}{ending}"'}
        return Response(content, media_type=media_type, headers=attached)
    answer = json.loads(content) if content else None
    return HTMLResponse(
        html.render(
            "query.html",
            asked=named_query,
            values={
                parameter.name: given.get(parameter.name, parameter.default) or ""
                for parameter in named_query.parameters
            },
            fault=fault,
            sql=text,
            answer=_table(answer) if answer else None,
            link=urlencode(given),
            most=MOST_SHOWN,
        ),
        status,
    )


def parameters(named_query: query.NamedQuery, items: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the parameters in an address. UsageError if a parameter is given twice."""
    empty_is_text = {parameter.name for parameter in named_query.parameters if parameter.type == "String"}
    given: dict[str, str] = {}
    for key, value in items:
        if key in given:
            raise UsageError(f"the parameter {key} is given twice: write it once")
        if (
            value
            or key in empty_is_text
            or key not in {parameter.name for parameter in named_query.parameters}
        ):
            given[key] = value
    return given


def missing_parameters(named_query: query.NamedQuery, given: Mapping[str, str]) -> list[str]:
    """Return the required parameters if no value is given: the page is then an empty form."""
    if given:
        return []
    return [parameter.name for parameter in named_query.parameters if parameter.default is None]


def _table(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns (name, whether it is a number) and the first rows of an answer in JSONCompact."""
    columns = [
        (column["name"], "Int" in column["type"] or "Float" in column["type"]) for column in answer["meta"]
    ]
    return {"columns": columns, "rows": answer["data"][:MOST_SHOWN], "count": len(answer["data"])}
