"""Reports from the store: tables, figures, the page of a run, named queries, traces."""
