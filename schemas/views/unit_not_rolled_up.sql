-- The loader rolls up the probes that it loads; probes that other programs insert must count, too. Both totals are
-- cheap; only if they differ, the query counts by month, and by unit only in months with more probes than the roll-up.
-- (A month that the engine dropped has fewer probes; its roll-up stays.)
WITH months AS
(
    SELECT month
    FROM
    (
        SELECT toUInt32(_partition_id) AS month, count() AS held, 0 AS rolled_up
        FROM ${database}.quic_probe
        WHERE (SELECT count() FROM ${database}.quic_probe) != (SELECT sum(probes) FROM ${database}.probe_day)
        GROUP BY _partition_id
        UNION ALL
        SELECT toYYYYMM(day) AS month, 0 AS held, sum(probes) AS rolled_up
        FROM ${database}.probe_day
        GROUP BY month
    )
    GROUP BY month
    HAVING sum(held) > sum(rolled_up)
)
SELECT run, vantage, repetition
FROM
(
    SELECT run, vantage, repetition, count() AS held, 0 AS rolled_up
    FROM ${database}.quic_probe
    WHERE toYYYYMM(day) IN (SELECT month FROM months)
    GROUP BY run, vantage, repetition
    UNION ALL
    SELECT run, vantage, repetition, 0 AS held, sum(probes) AS rolled_up
    FROM ${database}.probe_day
    WHERE toYYYYMM(day) IN (SELECT month FROM months)
    GROUP BY run, vantage, repetition
)
GROUP BY run, vantage, repetition
HAVING sum(held) > sum(rolled_up)
