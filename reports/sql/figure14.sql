-- As Figure 8, for each vantage point over all days of the run.
SELECT
    vantage,
    cdn,
    delay_us,
    sum(probes) OVER (PARTITION BY vantage, cdn ORDER BY delay_us) AS at_most,
    sum(probes) OVER (PARTITION BY vantage, cdn) AS of_probes
FROM
(
    SELECT
        vantage,
        assumeNotNull(cdn) AS cdn,
        toInt64(floor(100 * (exp10(ceil(40 * log10(1 + ack_to_sh_us / 100)) / 40) - 1) + 0.000001)) AS delay_us,
        count() AS probes
    FROM ${database}.quic_probe
    WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
        AND quic_probe.cdn IS NOT NULL AND address_rank = 0 AND family = 4
        AND attempts = 1 AND outcome IN ('iack', 'coalesced') AND ack_to_sh_us >= 0
    GROUP BY vantage, cdn, delay_us
)
ORDER BY vantage, cdn = 'Others', cdn, delay_us
