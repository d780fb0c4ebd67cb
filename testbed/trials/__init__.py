"""Trials: cells repeated in guests or in real time, and a row for each trial."""
