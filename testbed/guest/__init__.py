"""The guest, user-mode Linux with a simulated clock, and the build."""
