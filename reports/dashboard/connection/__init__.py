"""Limits on connections and on the bytes sent over them, and the answer to refused requests."""
