"""The testbed: real programs in a guest with a simulated clock (docs/testbed.md)."""
