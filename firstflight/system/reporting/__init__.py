"""How far a stage is: its progress, speed and remaining time, and what limits it."""
