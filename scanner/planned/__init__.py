"""Probes planned at set times: watched, owned and control names."""
