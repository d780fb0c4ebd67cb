"""Trials: their captures, blocks and series, without guests."""
