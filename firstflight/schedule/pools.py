"""Prints the pools of the declared vantage points as `airflow pools import` takes them.

python -m firstflight.schedule.pools > pools.json && airflow pools import pools.json
"""

from __future__ import annotations

import json
import sys

from firstflight.errors import FirstflightError
from firstflight.schedule.vantage_points import declared, pools


def main() -> int:
    """Print them; an error is one sentence."""
    try:
        json.dump(pools(declared()), sys.stdout, indent=1)
    except FirstflightError as error:
        print(f"pools: {error}", file=sys.stderr)
        return error.exit_status
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
