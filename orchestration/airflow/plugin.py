"""Airflow plugin at the centre: offers the inputs of runs to vantage points, on the api-server's own port.

    GET /firstflight/v1/runs/RUN/inputs          inputs.json
    GET /firstflight/v1/runs/RUN/inputs/NAME     a file that it lists
    GET /firstflight/v1/runs/RUN/stop            `stopped` or `goes on`
    GET /firstflight/v1/optout?nonce=HEX         the site's opt-out list

with `Authorization: Bearer TOKEN` (orchestration/site/centre_token.py). Airflow finds it by the entry point
`airflow.plugins` of this package; every Airflow process loads it, but only the api-server mounts the
interface.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.plugins_manager import AirflowPlugin


def _apps() -> list[dict[str, Any]]:
    if sys.argv[1:2] != ["api-server"]:
        return []
    from orchestration.airflow.inputs_app import app

    return [{"app": app, "url_prefix": "/firstflight/v1", "name": "firstflight inputs"}]


class FirstflightPlugin(AirflowPlugin):
    """The plugin that Airflow loads."""

    name = "firstflight"
    fastapi_apps = _apps()
