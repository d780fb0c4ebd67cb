"""The guest: user-mode Linux whose clock is simulated, and what builds it."""
