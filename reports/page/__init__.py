"""The static report of one run: its page and the parts of it."""
