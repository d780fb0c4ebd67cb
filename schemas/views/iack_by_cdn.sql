-- The paper counts a probe if it received an ACK and a ServerHello and the first ACK frame has First ACK Range 0, as
-- an instant ACK if the two arrived in different datagrams, in either order. With both received, `coalesced` means
-- exactly "in the same datagram"; ack_to_sh_us = 0 does not, because two datagrams can share a microsecond.
-- schemas/derived/probe_day.sql counts probes in this way, probe_unit.sql their names.
SELECT
    run,
    repetition,
    toDate(first_at) AS day,
    vantage,
    assumeNotNull(cdn) AS cdn,
    names_counted AS domains,
    names_instant AS iack_domains,
    if(counted = 0, NULL, instant / counted) AS iack_share,
    counted,
    instant
FROM ${database}.probe_unit_all AS probe_unit
INNER JOIN
(
    SELECT
        run,
        repetition,
        vantage,
        cdn,
        sum(probe_day.counted) AS counted,
        sum(probe_day.instant) AS instant
    FROM ${database}.probe_day_all AS probe_day
    WHERE probe_day.cdn IS NOT NULL AND family = 4 AND first_address
    GROUP BY run, repetition, vantage, cdn
) AS probes USING (run, repetition, vantage, cdn)
WHERE probe_unit.cdn IS NOT NULL AND family = 4 AND first_address
ORDER BY run, repetition, vantage, cdn = 'Others', cdn
