-- The hour is by the reference clock: what the vantage point's own clock was ahead is taken off. Quantiles interpolate
-- linearly between neighbours. A watch sends one Initial per slot, so there are no second attempts to leave out.
SELECT
    vantage,
    hour,
    cdn,
    purpose,
    first_answer,
    count() AS probes,
    uniqExact(domain) AS domains,
    quantileExactInclusiveOrNull(0.25)(ack_us) AS ack_us_p25,
    quantileExactInclusiveOrNull(0.5)(ack_us) AS ack_us_p50,
    quantileExactInclusiveOrNull(0.75)(ack_us) AS ack_us_p75,
    quantileExactInclusiveOrNull(0.25)(sh_us) AS sh_us_p25,
    quantileExactInclusiveOrNull(0.5)(sh_us) AS sh_us_p50,
    quantileExactInclusiveOrNull(0.75)(sh_us) AS sh_us_p75
FROM
(
    SELECT
        toString(vantage) AS vantage,
        toStartOfHour(toDateTime(assumeNotNull(sent_at) - toIntervalMicrosecond(ifNull(clock_offset_us, 0)), 'UTC')) AS hour,
        CAST(cdn, 'Nullable(String)') AS cdn,
        toString(purpose) AS purpose,
        toString(assumeNotNull(outcome)) AS first_answer,
        domain,
        ack_us,
        sh_us
    FROM ${database}.watch_slot
    WHERE watch_slot.state = 'probed' AND watch_slot.purpose != 'control' AND sent_at IS NOT NULL
        AND watch_slot.outcome IN ('iack', 'coalesced', 'sh_first')
)
GROUP BY vantage, hour, cdn, purpose, first_answer
ORDER BY vantage, hour, cdn, purpose, first_answer
