-- The roll-up of probes: one row per unit (run, vantage point, repetition), UTC day, CDN, address family and whether
-- the address was the first of its answer. Delays are of probes with one attempt (docs/definitions.md).
INSERT INTO ${database}.probe_day
(
    run, vantage, repetition, day, cdn, family, first_address,
    probes, sent, iack, coalesced, sh_first, closed, ack_only, retry, version_negotiation, refused, malformed,
    timeout, send_failed, blocked, counted, instant, names, first_at, last_at, first_iack_at,
    iack_delays, spurious, amplified, amplified_above_3, amplification_max,
    ack_us, iack_to_sh_us, sh_to_handshake_us, ack_delay_us
)
SELECT
    run,
    vantage,
    repetition,
    day,
    cdn,
    family,
    ifNull(address_rank = 0, false) AS first_address,
    count(),
    countIf(attempts > 0),
    countIf(outcome = 'iack'),
    countIf(outcome = 'coalesced'),
    countIf(outcome = 'sh_first'),
    countIf(outcome = 'closed'),
    countIf(outcome = 'ack_only'),
    countIf(outcome = 'retry'),
    countIf(outcome = 'version_negotiation'),
    countIf(outcome = 'refused'),
    countIf(outcome = 'malformed'),
    countIf(outcome = 'timeout'),
    countIf(outcome = 'send_failed'),
    countIf(outcome = 'blocked'),
    countIf(is_counted),
    countIf(is_counted AND outcome != 'coalesced'),
    uniqExact(domain),
    min(sent_at),
    max(sent_at),
    minIf(sent_at, outcome = 'iack'),
    countIf(is_iack_delay),
    countIf(is_iack_delay AND sh - ack >= 3 * ack),
    countIf(is_amplified),
    countIf(is_amplified AND bytes_received > 3 * bytes_sent),
    maxOrNullIf(toFloat32(bytes_received / bytes_sent), is_amplified),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(ack, attempts = 1 AND has_ack),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(sh - ack, is_iack_delay),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(
        assumeNotNull(after_sh), attempts = 1 AND after_sh IS NOT NULL),
    quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(
        assumeNotNull(delay), attempts = 1 AND delay IS NOT NULL)
FROM
(
    SELECT
        run, vantage, repetition, day, cdn, family, address_rank, domain, outcome, attempts, sent_at,
        bytes_received, bytes_sent,
        sh_to_handshake_us AS after_sh,
        ack_delay_raw * 8 AS delay,
        assumeNotNull(ack_us) AS ack,
        assumeNotNull(sh_us) AS sh,
        ack_us IS NOT NULL AS has_ack,
        has_ack AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted,
        has_ack AND sh_us IS NOT NULL AND outcome = 'iack' AND attempts = 1 AS is_iack_delay,
        NOT retried AND bytes_sent > 0 AS is_amplified
    FROM ${database}.quic_probe
    WHERE {units}
)
GROUP BY run, vantage, repetition, day, cdn, family, first_address;
