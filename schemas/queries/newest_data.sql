WITH (
    SELECT groupArray((newest.vantage, newest.run))
    FROM
    (
        SELECT vantage, argMax(run, sent_at) AS run
        FROM ${database}.quic_probe
        WHERE sent_at IS NOT NULL
        GROUP BY vantage
    ) AS newest
) AS of_vantage
SELECT
    vantage,
    run,
    outcome,
    count() AS probes,
    max(sent_at) AS newest_at
FROM ${database}.quic_probe
WHERE has(of_vantage, (vantage, run))
GROUP BY vantage, run, outcome
ORDER BY vantage, outcome
