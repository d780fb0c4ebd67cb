SELECT run, cdn, domains, iack_share_max, variation
FROM ${database}.table1_by_run
WHERE run IN (SELECT run FROM ${database}.newest_run)
ORDER BY cdn = 'Others', cdn
