-- The paper counts a probe if it saw an ACK and a ServerHello and the first ACK frame has First ACK Range 0, and
-- takes it for an instant ACK if the two came in different datagrams, in either order. With both seen, `coalesced`
-- is exactly "in the same datagram"; ack_to_sh_us = 0 is not, since two datagrams can share a microsecond.
SELECT
    run,
    repetition,
    day,
    vantage,
    cdn,
    domains,
    iack_domains,
    if(domains = 0, NULL, iack_domains / domains) AS iack_share
FROM
(
    SELECT
        run,
        repetition,
        toDate(min(sent_at)) AS day,
        vantage,
        assumeNotNull(cdn) AS cdn,
        uniqExactIf(domain, counted) AS domains,
        uniqExactIf(domain, counted AND outcome != 'coalesced') AS iack_domains
    FROM
    (
        SELECT
            run, repetition, vantage, cdn, domain, outcome, sent_at,
            ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false) AS counted
        FROM ${database}.quic_probe
        WHERE quic_probe.cdn IS NOT NULL AND address_rank = 0 AND isIPv4String(ip)
    )
    GROUP BY run, repetition, vantage, cdn
)
ORDER BY run, repetition, vantage, cdn = 'Others', cdn
