-- RFC 9002: with a first sample R, the probe timeout is R + max(2 R, 1 ms) (5.3, 6.2.1). Without a sample, R is 333 ms
-- (6.2.2), so it is 999 ms. It doubles at every expiry, so the nth expiry is after 2^n - 1 times the first timeout.
WITH
    rtt_us + greatest(2 * rtt_us, 1000) AS pto,
    (rtt_us + delay_us) + greatest(2 * (rtt_us + delay_us), 1000) AS pto_if_waiting
SELECT
    run,
    vantage,
    domain,
    ip,
    cdn,
    handshakes,
    iack / handshakes AS iack_share,
    certificate_bytes,
    flight_bytes,
    limit_bytes,
    flight_bytes > limit_bytes AS over_limit,
    rtt_us,
    CAST(round(delay_us), 'Nullable(Int64)') AS delay_us,
    pto AS pto_us,
    multiIf(over_limit, 'iack', delay_us < pto, 'iack', NOT over_limit AND delay_us >= pto, 'wait', NULL) AS verdict,
    multiIf(over_limit, 'over_limit', delay_us < pto, 'earlier_pto', NOT over_limit AND delay_us >= pto, 'spurious_probes', NULL) AS reason,
    multiIf(over_limit, 'iack', NOT over_limit, 'wait', NULL) AS verdict_first_flight_lost,
    multiIf(iack = handshakes, 'iack', iack = 0, 'wait', 'both') AS sends,
    if(sends = 'both', NULL, sends = verdict) AS follows,
    CAST(round(pto_if_waiting - pto), 'Nullable(Int64)') AS gain_us,
    CAST(floor(log2(delay_us / pto + 1)), 'Nullable(UInt16)') AS spurious_probes,
    if(pto IS NULL, NULL, greatest(999000 - pto, 0)) AS cost_if_lost_us
FROM
(
    SELECT
        run,
        vantage,
        domain,
        ip,
        any(cdn) AS cdn,
        count() AS handshakes,
        countIf(first_answer = 'iack') AS iack,
        min(certificate_bytes) AS certificate_bytes,
        min(bytes_received_handshake) AS flight_bytes,
        3 * min(bytes_sent_unvalidated) AS limit_bytes,
        min(rtt_min_us) AS rtt_us,
        quantileExactInclusive(0.5)(waited_us) AS delay_us
    FROM
    (
        SELECT
            *,
            -- Without an earlier ACK, the wait for a ServerHello is its time minus the path's round trip. A single
            -- sample cannot separate the two.
            multiIf(first_answer = 'iack', ack_to_sh_us,
                rtt_samples > 1, greatest(sh_us - rtt_min_us, 0), NULL) AS waited_us
        FROM ${database}.quic_handshake
        WHERE outcome = 'done' AND first_answer IN ('iack', 'coalesced', 'sh_first')
            AND NOT ifNull(retry, true) AND NOT ifNull(hello_retry, true)
            AND domain != ''
    )
    GROUP BY run, vantage, domain, ip
)
