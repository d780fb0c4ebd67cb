SELECT
    ${period} AS period,
    probe_day.vantage AS vantage,
    uniqExact(probe_day.run) AS runs,
    uniqExact(probe_day.run, probe_day.repetition) AS repetitions,
    sum(probe_day.probes) AS probes,
    sum(probe_day.sent) AS sent,
    sum(probe_day.iack) + sum(probe_day.coalesced) + sum(probe_day.sh_first) AS answered,
    sum(probe_day.timeout) AS timeout,
    sum(probe_day.blocked) AS blocked,
    sum(probe_day.send_failed) AS send_failed,
    if(sent = 0, NULL, answered / sent) AS answered_share,
    if(sent = 0, NULL, timeout / sent) AS timeout_share
FROM ${database}.probe_day_all AS probe_day
WHERE ({vantage:String} = '' OR probe_day.vantage = {vantage:String})
    AND ({cdn:String} = '' OR probe_day.cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
    AND ({all_addresses:Bool} OR (first_address AND family = 4))
GROUP BY period, vantage
ORDER BY period, vantage
