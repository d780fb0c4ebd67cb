"""Opt-outs at the centre apply at every vantage point. Without confirmation of the list, sending stops."""
