"""The testbed: real programs in a guest with a simulated clock (docs/testbed.md).

guest/              user-mode Linux, its kernel and helper programs
stacks/             a file per QUIC stack; `browsers/`; `patched/`: servers on modified stacks
experiment/         an experiment and its cells: path, server and ACK parts; published and expected values
experiments/        a TOML file per experiment, which `experiment_files` reads
trials/             repetitions for a cell, one row each; `network/`: the path; `captures/`: its packets
summary             the table and verdicts of results
measures/           a module per measure: tables of the file, lines, table, figure; folders: shared parts
computed/           figures without trials, and tables of several experiments
report, repeat_commands     the HTML page of an experiment
setup               builds everything once
clients/, servers/  Rust and Java: programs that only the testbed uses
"""
