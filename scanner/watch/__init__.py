"""The watch stage: names probed at set times for a period."""
