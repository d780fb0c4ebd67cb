"""The watch stage: probes names at set times for a period."""
