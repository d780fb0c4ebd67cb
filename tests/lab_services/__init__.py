"""Tests of the lab's name server, list and routing-table hosts on the real programs."""
