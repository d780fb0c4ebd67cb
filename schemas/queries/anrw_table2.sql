SELECT * EXCEPT (run)
FROM ${database}.anrw_table2
WHERE ${of_run_with download}
ORDER BY versus, `set`
