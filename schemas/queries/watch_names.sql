SELECT
    domain,
    purpose,
    at_vantage AS vantage,
    argMaxIf(known, planned_at, known IS NOT NULL) AS cdn,
    count() AS slots,
    countIf(state = 'probed') AS probed,
    countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
    countIf(outcome = 'iack') AS iack,
    countIf(outcome = 'coalesced') AS coalesced,
    if(answered = 0, NULL, iack / answered) AS iack_share,
    if(answered = 0, NULL, coalesced / answered) AS coalesced_share,
    countIf(outcome = 'ack_only') AS ack_only,
    countIf(outcome = 'timeout') AS timeouts,
    quantileExactInclusiveOrNullIf(0.5)(sh_us - ack_us, outcome = 'iack') AS ack_to_sh_us_p50
FROM
(
    SELECT
        toString(domain) AS domain,
        toString(purpose) AS purpose,
        if({by_vantage:Bool}, toString(vantage), NULL) AS at_vantage,
        CAST(cdn, 'Nullable(String)') AS known,
        planned_at,
        toString(state) AS state,
        ifNull(toString(outcome), '') AS outcome,
        ack_us,
        sh_us
    FROM ${database}.watch_slot
    WHERE watch_slot.purpose != 'control'
        AND toDate32(watch_slot.planned_at) BETWEEN toDate32({since:Date}) AND toDate32({until:Date})
        AND ({vantage:String} = '' OR watch_slot.vantage = {vantage:String})
        AND ({cdn:String} = '' OR watch_slot.cdn = {cdn:String})
)
GROUP BY domain, purpose, at_vantage
ORDER BY purpose, domain, vantage
