-- The numbers of Figure 14; rows without vantage combine all vantage points, with one weight per probe.
SELECT
    if(grouping(quic_probe.vantage) = 1, NULL, toString(quic_probe.vantage)) AS vantage,
    quic_probe.cdn AS cdn,
    countIf(attempts = 1 AND outcome IN ('iack', 'coalesced')) AS drawn,
    countIf(attempts = 1 AND outcome = 'iack') AS iack,
    countIf(attempts = 1 AND outcome = 'coalesced') AS coalesced,
    countIf(attempts = 1 AND outcome = 'sh_first') AS sh_first,
    countIf(attempts > 1 AND outcome IN ('iack', 'coalesced', 'sh_first')) AS repeated,
    if(iack = 0, [], quantilesExactInclusiveIf(0.25, 0.5, 0.75)(
        ifNull(ack_to_sh_us, 0), attempts = 1 AND outcome = 'iack')) AS quartiles_us
FROM ${database}.quic_probe
WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
    AND cdn IS NOT NULL AND address_rank = 0 AND family = 4
GROUP BY GROUPING SETS ((quic_probe.vantage, quic_probe.cdn), (quic_probe.cdn))
ORDER BY cdn = 'Others', cdn, vantage IS NOT NULL, vantage
