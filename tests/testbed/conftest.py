"""The testbed's stacks, as a new machine has them: without what its user has built from a source."""

from __future__ import annotations

from unittest import mock

from testbed import stacks
from testbed.stacks.from_source import Source

# Before the first test module asks for them, which some do when they are read.
stacks.load.cache_clear()
with mock.patch.object(Source, "command", return_value=None):
    stacks.load()
