"""The responses of the dashboard: pages of panels and queries, files, events, metrics."""
