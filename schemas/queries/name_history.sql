SELECT
    ${period} AS period,
    toString(quic_probe.vantage) AS vantage,
    count() AS probes,
    countIf(outcome = 'iack') AS iack,
    countIf(outcome = 'coalesced') AS coalesced,
    countIf(outcome = 'sh_first') AS sh_first,
    probes - iack - coalesced - sh_first AS other_outcomes,
    countIf(attempts = 1 AND ack_us IS NOT NULL) AS ack_delays,
    quantileExactInclusiveOrNullIf(0.5)(ack_us, attempts = 1) AS ack_us_p50,
    countIf(outcome = 'iack' AND attempts = 1) AS iack_delays,
    quantileExactInclusiveOrNullIf(0.5)(ack_to_sh_us, outcome = 'iack' AND attempts = 1) AS ack_to_sh_us_p50
FROM ${database}.quic_probe
WHERE quic_probe.domain = {domain:String}
    AND ({vantage:String} = '' OR quic_probe.vantage = {vantage:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY period, vantage
ORDER BY period, vantage
