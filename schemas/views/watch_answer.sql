-- The hour uses the reference clock: the offset of the vantage point's clock is subtracted. A watch sends one Initial
-- per planned probe, so there are no second attempts to exclude.
SELECT
    toString(vantage) AS vantage,
    planned_at,
    toStartOfHour(toDateTime(assumeNotNull(sent_at) - toIntervalMicrosecond(ifNull(clock_offset_us, 0)), 'UTC')) AS hour,
    CAST(cdn, 'Nullable(String)') AS cdn,
    toString(purpose) AS purpose,
    toString(assumeNotNull(outcome)) AS first_answer,
    toString(domain) AS domain,
    ack_us,
    sh_us,
    sh_us - ack_us AS ack_to_sh_us,
    assumeNotNull(ip) AS ip,
    family
FROM ${database}.watch_slot
WHERE watch_slot.state = 'probed' AND watch_slot.purpose != 'control' AND sent_at IS NOT NULL
    AND watch_slot.outcome IN ('iack', 'coalesced', 'sh_first')
