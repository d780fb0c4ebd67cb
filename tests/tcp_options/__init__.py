"""Tests of the TCP option survey."""
