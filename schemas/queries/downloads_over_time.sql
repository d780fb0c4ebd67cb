SELECT
    period,
    `set`,
    count() AS downloads,
    countIf(outcome IN ('done', 'stopped_limit')) AS successful,
    successful / downloads AS successful_share,
    countIf(is_measured) AS measured,
    quantileExactInclusiveOrNullIf(0.25)(goodput, is_measured) AS goodput_bps_p25,
    quantileExactInclusiveOrNullIf(0.5)(goodput, is_measured) AS goodput_bps_p50,
    quantileExactInclusiveOrNullIf(0.75)(goodput, is_measured) AS goodput_bps_p75
FROM
(
    SELECT
        toDate(started_at) AS day,
        ${period} AS period,
        toString(download.`set`) AS `set`,
        outcome,
        application_goodput_bps AS goodput,
        outcome IN ('done', 'stopped_limit') AND application_goodput_bps IS NOT NULL AS is_measured
    FROM ${database}.download
    WHERE started_at IS NOT NULL
        AND ({vantage:String} = '' OR download.vantage = {vantage:String})
        AND ({cdn:String} = '' OR download.cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
)
GROUP BY period, `set`
ORDER BY period, `set`
