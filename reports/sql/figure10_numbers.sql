-- The numbers of Figure 10. below_zero: the reported ACK Delay is longer than the measured delay.
SELECT
    way,
    outcome,
    cdn,
    count(difference) AS probes,
    count() - probes AS without_ack_delay,
    countIf(difference < 0) AS below_zero,
    countIf(abs(difference) < 1000) AS within_1ms,
    if(probes = 0, [], quantilesExactInclusive(0.25, 0.5, 0.75)(difference)) AS quartiles_us
FROM
(
    SELECT
        assumeNotNull(cdn) AS cdn,
        toString(outcome) AS outcome,
        ack_us - ack_delay_us AS physical,
        if(outcome = 'coalesced', 0, ack_to_sh_us) - ack_delay_us AS paper
    FROM ${database}.quic_probe
    WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
        AND quic_probe.cdn IS NOT NULL AND address_rank = 0 AND family = 4
        AND attempts = 1 AND quic_probe.outcome IN ('iack', 'coalesced')
)
ARRAY JOIN ['paper', 'physical'] AS way, [paper, physical] AS difference
GROUP BY way, outcome, cdn
ORDER BY way, outcome, cdn = 'Others', cdn
