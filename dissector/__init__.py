"""Converts captures to records: the dissect stage.

connections     limit on live connections
qlog/           captures to qlog (`write`), qlog files of stacks to rows (`read`)
native/         Rust: the dissector, in `input/`, `net/`, `flow/`, `quic/`, `tcp/` and `output/`
"""
