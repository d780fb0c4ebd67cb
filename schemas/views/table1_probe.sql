-- The filter of Table 1 (iack_by_cdn), a row per probe.
SELECT
    run,
    vantage,
    repetition,
    quic_probe.sent_at AS sent_at,
    quic_probe.day AS day,
    domain,
    ip,
    quic_probe.asn AS asn,
    assumeNotNull(quic_probe.cdn) AS cdn,
    outcome,
    outcome != 'coalesced' AS instant,
    assumeNotNull(quic_probe.ack_us) AS ack_us,
    assumeNotNull(quic_probe.sh_us) AS sh_us,
    if(outcome = 'iack' AND attempts = 1, quic_probe.sh_us - quic_probe.ack_us, NULL) AS delay_us
FROM ${database}.quic_probe
WHERE quic_probe.cdn IS NOT NULL
    AND family = 4
    AND address_rank = 0
    AND quic_probe.ack_us IS NOT NULL
    AND quic_probe.sh_us IS NOT NULL
    AND ifNull(first_ack_range = 0, false)
