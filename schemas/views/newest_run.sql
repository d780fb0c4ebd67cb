-- This reads the load log, which has a few rows per run, instead of all probes. Runs outside the load log were inserted
-- by another program.
SELECT run
FROM
(
    SELECT run, first_at
    FROM ${database}.load_file FINAL
    WHERE kind = 'quic_probe' AND state = 'loaded' AND first_at IS NOT NULL
        AND source_file NOT LIKE '%/watch/quic_probe.parquet'
    UNION ALL
    SELECT run, min(sent_at) AS first_at
    FROM ${database}.quic_probe
    WHERE run IN (SELECT run FROM ${database}.unit_not_rolled_up)
        AND run NOT IN (SELECT run FROM ${database}.load_file WHERE kind = 'quic_probe')
        AND sent_at IS NOT NULL
    GROUP BY run
)
GROUP BY run
ORDER BY min(first_at) DESC, run DESC
LIMIT 1
