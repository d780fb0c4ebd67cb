-- The roll-up gives the newest run of each vantage point. Only the probes of these runs are read.
WITH newest AS
(
    SELECT vantage, argMax(run, last_at) AS run
    FROM ${database}.probe_day_all
    WHERE last_at IS NOT NULL
    GROUP BY vantage
)
SELECT
    vantage,
    run,
    outcome,
    count() AS probes,
    max(sent_at) AS newest_at
FROM ${database}.quic_probe
WHERE run IN (SELECT run FROM newest) AND (vantage, run) IN (SELECT vantage, run FROM newest)
GROUP BY vantage, run, outcome
ORDER BY vantage, outcome
