-- By planned time, to include hours in which nothing could be sent.
SELECT
    toString(vantage) AS vantage,
    toStartOfHour(toDateTime(planned_at, 'UTC')) AS hour,
    toString(purpose) AS purpose,
    count() AS slots,
    countIf(state = 'probed') AS probed,
    countIf(state = 'skipped') AS skipped,
    arraySort(groupUniqArrayIf(assumeNotNull(toString(reason)), state = 'skipped')) AS reasons,
    quantileExactInclusiveOrNullIf(0.99)(late_us, state = 'probed') AS late_us_p99
FROM ${database}.watch_slot
GROUP BY vantage, hour, purpose
ORDER BY vantage, hour, purpose
