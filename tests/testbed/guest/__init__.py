"""The kernel, packages and start of guests; tests/testbed/guests has the tests that run guests."""
