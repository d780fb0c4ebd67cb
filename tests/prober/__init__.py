"""The native prober, used as in the stages: options, exit statuses, records, real servers on loopback."""
