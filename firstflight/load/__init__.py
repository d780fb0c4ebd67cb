"""Record files into the store: files read and checked, their units, what is derived, the run's own row."""
