"""Tests of the lab's name server, list host and routing table host, with the real programs."""
