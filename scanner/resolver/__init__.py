"""Asks a DNS resolver: questions, answers, pace, and the record files of the answers."""
