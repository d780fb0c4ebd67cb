"""A run's static report page."""
