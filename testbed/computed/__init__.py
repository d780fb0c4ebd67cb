"""All figures and tables that need no trials. No experiment uses their names."""

from __future__ import annotations

from testbed.computed.ack_overhead import OVERHEAD
from testbed.computed.better_answer_page import BETTER, Derived
from testbed.computed.numeric import NUMERIC, Numeric

COMPUTED: dict[str, Numeric] = {**NUMERIC, "ack-overhead": OVERHEAD}
DERIVED: dict[str, Derived] = {"iack-better": BETTER}
"""Tables computed from the trials of experiments."""
