-- The paper counts a probe if it saw an ACK and a ServerHello and the first ACK frame has First ACK Range 0, and
-- takes it for an instant ACK if the two came in different datagrams, in either order. With both seen, `coalesced`
-- is exactly "in the same datagram"; ack_to_sh_us = 0 is not, since two datagrams can share a microsecond.
-- schemas/derived/probe_unit.sql counts so.
SELECT
    run,
    repetition,
    toDate(first_at) AS day,
    vantage,
    assumeNotNull(cdn) AS cdn,
    names_counted AS domains,
    names_instant AS iack_domains,
    if(domains = 0, NULL, iack_domains / domains) AS iack_share
FROM ${database}.probe_unit_all AS probe_unit
WHERE probe_unit.cdn IS NOT NULL AND family = 4 AND first_address
ORDER BY run, repetition, vantage, cdn = 'Others', cdn
