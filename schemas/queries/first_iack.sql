SELECT
    probe_day.cdn AS cdn,
    if({by_vantage:Bool}, probe_day.vantage, NULL) AS vantage,
    min(probe_day.first_iack_at) AS first_iack_at,
    toDate(first_iack_at) AS first_day,
    if(first_iack_at IS NULL, NULL, argMin(probe_day.run, probe_day.first_iack_at)) AS run,
    min(probe_day.first_at) AS first_probe_at,
    sum(probe_day.iack) + sum(probe_day.coalesced) + sum(probe_day.sh_first) AS answered,
    sum(probe_day.iack) AS iack
FROM ${database}.probe_day_all AS probe_day
WHERE probe_day.cdn IS NOT NULL
    AND ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
    AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (first_address AND family = 4))
GROUP BY probe_day.cdn, if({by_vantage:Bool}, probe_day.vantage, NULL)
ORDER BY first_iack_at NULLS LAST, cdn, vantage
