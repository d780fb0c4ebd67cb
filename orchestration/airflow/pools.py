"""Prints the pools of the declared vantage points in the format of `airflow pools import`.

python -m orchestration.airflow.pools > pools.json && airflow pools import pools.json
"""

from __future__ import annotations

import sys

from firstflight.errors import FirstflightError
from firstflight.system import terminal
from orchestration.site.vantage_points import declared, pools


def main() -> int:
    """Print the pools, or an error message."""
    try:
        pools_of_site = pools(declared())
    except FirstflightError as error:
        terminal.echo(f"pools: {error}", err=True)
        return error.exit_status
    terminal.echo(terminal.as_json(pools_of_site, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
