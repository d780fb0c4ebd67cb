"""The resolve stage: resolves names to addresses."""
