SELECT vantage, target_set, cdn, domains
FROM ${database}.anrw_table1
WHERE ${of_run_with download}
ORDER BY target_set DESC, vantage, cdn = 'Total' DESC, cdn = 'Others', cdn
