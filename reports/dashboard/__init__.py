"""The dashboard: pages of a live server on the store (docs/reference/dashboard.md)."""
