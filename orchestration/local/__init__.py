"""Runs a campaign on this machine: order of stages, lifecycle, console, manifest."""
