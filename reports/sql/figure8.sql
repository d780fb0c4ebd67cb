-- How many of a CDN's probes had the ServerHello at most delay_us after the ACK (0 = in the same datagram).
-- Counts are exact at each delay_us. There are 40 values of delay_us per decade above 100 us, fewer below.
SELECT
    cdn,
    delay_us,
    sum(probes) OVER (PARTITION BY cdn ORDER BY delay_us) AS at_most,
    sum(probes) OVER (PARTITION BY cdn) AS of_probes
FROM
(
    SELECT
        assumeNotNull(cdn) AS cdn,
        toInt64(floor(100 * (exp10(ceil(40 * log10(1 + ack_to_sh_us / 100)) / 40) - 1) + 0.000001)) AS delay_us,
        count() AS probes
    FROM ${database}.quic_probe
    WHERE run = {run:String} AND day = {day:Date} AND vantage = {vantage:String}
        AND quic_probe.cdn IS NOT NULL AND address_rank = 0 AND family = 4 AND attempts = 1
        AND outcome IN ('iack', 'coalesced') AND ack_to_sh_us >= 0
    GROUP BY cdn, delay_us
)
ORDER BY cdn = 'Others', cdn, delay_us
