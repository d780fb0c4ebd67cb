"""The static report page of one run."""
