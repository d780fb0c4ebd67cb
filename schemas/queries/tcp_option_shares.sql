WITH
counted AS
(
    SELECT
        run,
        vantage,
        each.1 AS counted_by,
        each.2 AS counted_value,
        max(outcome = 'answered') AS is_answered,
        argMinIf(
            (ecn, sack, window_scaling, timestamps, mss),
            (
                ecn IS NULL OR sack IS NULL OR window_scaling IS NULL,
                repetition,
                ifNull(sent_at, toDateTime64(0, 9, 'UTC')),
                cityHash64(domain, ip, port)
            ),
            outcome = 'answered') AS first_answer
    FROM ${database}.tcp_option
    ARRAY JOIN [('names', domain), ('addresses', ip)] AS each
    WHERE counted_value != '' AND outcome NOT IN ('blocked', 'send_failed')
        AND ${of_run_with tcp_option}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
    GROUP BY run, vantage, counted_by, counted_value
),
agreed AS
(
    SELECT
        run,
        vantage,
        counted_by,
        is_answered,
        first_answer.1 AS ecn,
        first_answer.2 AS sack,
        first_answer.3 AS ws,
        first_answer.4 AS timestamps,
        first_answer.5 AS mss,
        ecn IS NOT NULL AND sack IS NOT NULL AND ws IS NOT NULL AS three_are_known
    FROM counted
)
SELECT
    run,
    vantage,
    counted_by,
    count() AS asked,
    countIf(is_answered) AS answered,
    countIf(is_answered AND three_are_known) AS three_known,
    countIf(three_are_known AND NOT ecn AND NOT sack AND NOT ws) / nullIf(three_known, 0) AS none_share,
    countIf(ecn AND sack AND ws) / nullIf(three_known, 0) AS all_three_share,
    countIf(ecn) / nullIf(countIf(ecn IS NOT NULL), 0) AS ecn_share,
    countIf(sack) / nullIf(countIf(sack IS NOT NULL), 0) AS sack_share,
    countIf(ws) / nullIf(countIf(ws IS NOT NULL), 0) AS window_scaling_share,
    countIf(timestamps) / nullIf(countIf(timestamps IS NOT NULL), 0) AS timestamps_share,
    countIf(mss < 1220) / nullIf(countIf(mss IS NOT NULL), 0) AS mss_below_1220,
    countIf(mss >= 1220 AND mss < 1400) / nullIf(countIf(mss IS NOT NULL), 0) AS mss_from_1220,
    countIf(mss >= 1400 AND mss < 1440) / nullIf(countIf(mss IS NOT NULL), 0) AS mss_from_1400,
    countIf(mss >= 1440 AND mss < 1460) / nullIf(countIf(mss IS NOT NULL), 0) AS mss_from_1440,
    countIf(mss >= 1460) / nullIf(countIf(mss IS NOT NULL), 0) AS mss_from_1460
FROM agreed
GROUP BY run, vantage, counted_by
ORDER BY run, vantage, counted_by DESC
