"""Resolves names and probes QUIC servers for their first answer.

The table of stages names the folder of each stage (orchestration/stages.py); `first_answer/` has the stage
probe. Code that stages share, the higher layers first (the import contract "Inside scanner"):

    sampled         stages that use a sample of the names
    target_stage    stages with targets, and with an engine
    engine_run      one run of an engine
    records/        columns that stages add to the rows of an engine
    planned/        probes at planned times
    backoff/        pauses of networks
    resolver/       questions to resolvers
    driver/         the engine's process, feed, segments, summaries, captures

Other scanners: `imports/` converts their results to record files, `external/` runs them. `native/` has the
engines in Rust: `core/` is their library (egress policy, outbox, rate limits, targets, feed, segments),
`certificates/` reads chains, the other folders are programs.
"""
