"""The native prober, run as the stages run it: options, exit statuses, records, real servers on loopback."""
