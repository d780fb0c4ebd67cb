SELECT * EXCEPT (run)
FROM ${database}.anrw_table2
WHERE ${of_run}
ORDER BY versus, `set`
