"""The resolve stage: names to addresses."""
