"""The captures of trials: completeness checks and content."""
