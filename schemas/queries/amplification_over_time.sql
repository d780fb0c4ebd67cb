SELECT
    ${period} AS period,
    sum(probe_day.amplified) AS probes,
    sum(probe_day.amplified_above_3) AS above_3,
    if(probes = 0, NULL, above_3 / probes) AS above_3_share,
    max(probe_day.amplification_max) AS highest
FROM ${database}.probe_day_all AS probe_day
WHERE ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
    AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (first_address AND family = 4))
GROUP BY period
ORDER BY period
