SELECT
    day,
    probe_day.cdn AS cdn,
    vantage,
    uniqExact(run, repetition) AS repetitions,
    max(probe_day.names) AS names,
    sum(probe_day.probes) AS probes,
    sum(probe_day.counted) AS counted,
    sum(probe_day.instant) AS instant,
    if(counted = 0, NULL, instant / counted) AS iack_share,
    sum(probe_day.iack) + sum(probe_day.coalesced) + sum(probe_day.sh_first) AS answered,
    sum(probe_day.iack) AS iack,
    if(answered = 0, NULL, iack / answered) AS strict_share
FROM ${database}.probe_day_all AS probe_day
WHERE probe_day.cdn IS NOT NULL
    AND ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (first_address AND family = 4))
GROUP BY day, probe_day.cdn, vantage
ORDER BY day, cdn = 'Others', cdn, vantage
