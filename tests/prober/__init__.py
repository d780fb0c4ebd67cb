"""The native prober, driven as others drive it: options, exit statuses, records, real servers on loopback."""
