-- The points of Figure 4: quartiles of RTT = ack_us and delta = ack_to_sh_us of iack rows.
-- spurious: delta is at least the first PTO, the paper's way (3 RTT) and by RFC 9002 (RTT + max(4 x RTT/2, 1 ms)).
SELECT
    assumeNotNull(cdn) AS cdn,
    vantage,
    count() AS probes,
    quantilesExactInclusive(0.25, 0.5, 0.75)(assumeNotNull(ack_us)) AS rtt_us,
    quantilesExactInclusive(0.25, 0.5, 0.75)(assumeNotNull(ack_to_sh_us)) AS delta_us,
    countIf(ack_to_sh_us >= 3 * ack_us) AS spurious_paper,
    countIf(ack_to_sh_us >= ack_us + greatest(2 * ack_us, 1000)) AS spurious_rfc
FROM ${database}.quic_probe
WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
    AND quic_probe.cdn IS NOT NULL AND address_rank = 0 AND family = 4
    AND attempts = 1 AND outcome = 'iack' AND ack_us > 0 AND ack_to_sh_us IS NOT NULL
GROUP BY cdn, vantage
ORDER BY cdn = 'Others', cdn, vantage
