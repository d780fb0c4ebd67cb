-- This reads the load log, which has a few rows per run, instead of all records. Probes of runs outside the load log were
-- inserted by another program.
SELECT
    kind,
    argMax(each.run, (each.began, each.run)) AS run,
    max(each.began) AS began_at,
    count() AS runs
FROM
(
    SELECT kind, run, min(at) AS began
    FROM
    (
        SELECT toString(kind) AS kind, toString(run) AS run, assumeNotNull(first_at) AS at
        FROM ${database}.load_file FINAL
        WHERE state = 'loaded' AND first_at IS NOT NULL AND run != ''
            AND NOT endsWith(source_file, concat('/watch/', kind, '.parquet'))
        UNION ALL
        SELECT 'quic_probe' AS kind, toString(run) AS run, assumeNotNull(min(sent_at)) AS at
        FROM ${database}.quic_probe
        WHERE run IN (SELECT run FROM ${database}.unit_not_rolled_up)
            AND run NOT IN (SELECT run FROM ${database}.load_file WHERE kind = 'quic_probe')
            AND sent_at IS NOT NULL
        GROUP BY run
    )
    GROUP BY kind, run
) AS each
GROUP BY kind
ORDER BY kind
