-- The roll-up of probes: one row per unit (run, vantage point, repetition), UTC day, CDN, address family and whether
-- the address was the first in the answer. Delays include only probes with one attempt (docs/definitions.md).
--
-- A separate GROUP BY counts names: an aggregate over ten million names cannot spill to disk, groups can.
INSERT INTO ${database}.probe_day
(
    run, vantage, repetition, day, cdn, family, first_address,
    probes, sent, iack, coalesced, sh_first, closed, ack_only, retry, version_negotiation, refused, malformed,
    timeout, send_failed, blocked, counted, instant, names, first_at, last_at, first_iack_at,
    iack_delays, spurious, amplified, amplified_above_3, amplification_max,
    sized_iack, padded_iack, iack_ack_bytes, iack_budget_bytes,
    ack_us, iack_to_sh_us, sh_to_handshake_us, ack_delay_us
)
SELECT
    total.run AS run,
    total.vantage AS vantage,
    total.repetition AS repetition,
    total.day AS day,
    total.cdn AS cdn,
    total.family AS family,
    total.first_address AS first_address,
    probes, sent, iack, coalesced, sh_first, closed, ack_only, retry, version_negotiation, refused, malformed,
    timeout, send_failed, blocked, counted, instant, names, first_at, last_at, first_iack_at,
    iack_delays, spurious, amplified, amplified_above_3, amplification_max,
    sized_iack, padded_iack, iack_ack_bytes, iack_budget_bytes,
    ack_us, iack_to_sh_us, sh_to_handshake_us, ack_delay_us
FROM
(
    SELECT
        run,
        vantage,
        repetition,
        day,
        cdn,
        family,
        first_address,
        count() AS probes,
        countIf(attempts > 0) AS sent,
        countIf(outcome = 'iack') AS iack,
        countIf(outcome = 'coalesced') AS coalesced,
        countIf(outcome = 'sh_first') AS sh_first,
        countIf(outcome = 'closed') AS closed,
        countIf(outcome = 'ack_only') AS ack_only,
        countIf(outcome = 'retry') AS retry,
        countIf(outcome = 'version_negotiation') AS version_negotiation,
        countIf(outcome = 'refused') AS refused,
        countIf(outcome = 'malformed') AS malformed,
        countIf(outcome = 'timeout') AS timeout,
        countIf(outcome = 'send_failed') AS send_failed,
        countIf(outcome = 'blocked') AS blocked,
        countIf(is_counted) AS counted,
        countIf(is_counted AND outcome != 'coalesced') AS instant,
        min(sent_at) AS first_at,
        max(sent_at) AS last_at,
        minIf(sent_at, outcome = 'iack') AS first_iack_at,
        countIf(is_iack_delay) AS iack_delays,
        countIf(is_iack_delay AND sh - ack >= 3 * ack) AS spurious,
        countIf(is_amplified) AS amplified,
        countIf(is_amplified AND bytes_received > 3 * bytes_sent) AS amplified_above_3,
        maxOrNullIf(toFloat32(bytes_received / bytes_sent), is_amplified) AS amplification_max,
        countIf(is_sized_iack) AS sized_iack,
        countIf(is_sized_iack AND ack_bytes >= 1200) AS padded_iack,
        sumIf(ack_bytes, is_sized_iack) AS iack_ack_bytes,
        sumIf(3 * toUInt64(bytes_sent), is_sized_iack) AS iack_budget_bytes,
        quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(ack, attempts = 1 AND has_ack) AS ack_us,
        quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(sh - ack, is_iack_delay) AS iack_to_sh_us,
        quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(
            assumeNotNull(after_sh), attempts = 1 AND after_sh IS NOT NULL) AS sh_to_handshake_us,
        quantilesDDStateIf(0.005, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)(
            assumeNotNull(delay), attempts = 1 AND delay IS NOT NULL) AS ack_delay_us
    FROM
    (
        SELECT
            run, vantage, repetition, day, cdn, family, outcome, attempts, sent_at, bytes_received, bytes_sent,
            ifNull(address_rank = 0, false) AS first_address,
            quic_probe.sh_to_handshake_us AS after_sh,
            if(ack_delay_raw < 1152921504606846976, ack_delay_raw * 8, NULL) AS delay,
            assumeNotNull(quic_probe.ack_us) AS ack,
            assumeNotNull(sh_us) AS sh,
            quic_probe.ack_us IS NOT NULL AS has_ack,
            has_ack AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS is_counted,
            has_ack AND sh_us IS NOT NULL AND outcome = 'iack' AND attempts = 1 AS is_iack_delay,
            NOT retried AND bytes_sent > 0 AS is_amplified,
            assumeNotNull(toUInt64(ack_datagram_bytes)) AS ack_bytes,
            is_amplified AND outcome = 'iack' AND ack_datagram_bytes IS NOT NULL AS is_sized_iack
        FROM ${database}.quic_probe
        WHERE {units}
    )
    GROUP BY run, vantage, repetition, day, cdn, family, first_address
) AS total
INNER JOIN
(
    SELECT run, vantage, repetition, day, cdn, family, first_address, count() AS names
    FROM
    (
        SELECT run, vantage, repetition, day, cdn, family, ifNull(address_rank = 0, false) AS first_address
        FROM ${database}.quic_probe
        WHERE {units}
        GROUP BY run, vantage, repetition, day, cdn, family, first_address, domain
    )
    GROUP BY run, vantage, repetition, day, cdn, family, first_address
) AS named
    ON total.run = named.run AND total.vantage = named.vantage AND total.repetition = named.repetition
    AND total.day = named.day AND total.cdn IS NOT DISTINCT FROM named.cdn AND total.family = named.family
    AND total.first_address = named.first_address;
