"""The testbed: real programs in a guest whose clock is simulated (docs/testbed.md)."""
