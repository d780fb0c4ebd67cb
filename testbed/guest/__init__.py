"""The guest, user-mode Linux with a simulated clock, and its build."""
