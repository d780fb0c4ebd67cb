SELECT
    formatDateTime(if({step:String} = 'hour', toStartOfHour(toDateTime(planned_at, 'UTC')), toStartOfDay(toDateTime(planned_at, 'UTC'))), '%F %H:%i') AS period,
    toString(watch_slot.vantage) AS vantage,
    count() AS planned,
    countIf(state = 'probed') AS probed,
    countIf(state = 'skipped') AS skipped,
    probed / planned AS probed_share,
    quantileExactInclusiveOrNullIf(0.5)(late_us, state = 'probed') AS late_us_p50,
    quantileExactInclusiveOrNullIf(0.99)(late_us, state = 'probed') AS late_us_p99
FROM ${database}.watch_slot
WHERE toDate32(planned_at) BETWEEN toDate32({since:Date}) AND toDate32({until:Date})
    AND ({vantage:String} = '' OR watch_slot.vantage = {vantage:String})
GROUP BY period, vantage
ORDER BY period, vantage
