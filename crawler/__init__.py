"""Where targets come from: top lists, routing tables, AS and CDN data."""
