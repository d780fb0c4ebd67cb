-- From the loader's books rather than from the probes: a few rows per run instead of all of them.
SELECT run
FROM ${database}.load_file FINAL
WHERE kind = 'quic_probe' AND state = 'loaded' AND first_at IS NOT NULL
    AND source_file NOT LIKE '%/watch/quic_probe.parquet'
GROUP BY run
ORDER BY min(first_at) DESC, run DESC
LIMIT 1
