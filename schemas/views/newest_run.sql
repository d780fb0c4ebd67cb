SELECT run
FROM ${database}.newest_runs
WHERE kind = 'quic_probe'
