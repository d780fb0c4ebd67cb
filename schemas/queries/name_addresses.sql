SELECT
    toString(ip) AS address,
    toString(quic_probe.vantage) AS vantage,
    argMax(asn, day) AS newest_asn,
    argMax(quic_probe.cdn, day) AS newest_cdn,
    min(day) AS first_day,
    max(day) AS last_day,
    count() AS probes,
    countIf(outcome = 'iack') AS iack,
    countIf(outcome IN ('coalesced', 'sh_first')) AS other_answers,
    countIf(outcome NOT IN ('iack', 'coalesced', 'sh_first')) AS without_answer,
    argMax(toString(outcome), ifNull(sent_at, toDateTime64(0, 9, 'UTC'))) AS newest_outcome,
    quantileExactInclusiveOrNullIf(0.5)(ack_us, attempts = 1) AS ack_us_p50,
    toString(argMax(quic_probe.run, ifNull(sent_at, toDateTime64(0, 9, 'UTC')))) AS newest_run
FROM ${database}.quic_probe
WHERE quic_probe.domain = {domain:String}
    AND ({vantage:String} = '' OR quic_probe.vantage = {vantage:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY address, vantage
ORDER BY last_day DESC, address, vantage
LIMIT {limit:UInt32}
