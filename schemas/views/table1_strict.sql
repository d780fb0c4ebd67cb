SELECT *
FROM ${database}.table1_strict_by_run
WHERE run IN (SELECT run FROM ${database}.newest_run)
ORDER BY cdn = 'Others', cdn
