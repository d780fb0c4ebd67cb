WITH quantilesExactInclusive(0.25, 0.5, 0.75, 0.9, 0.99)(gap) AS q
SELECT
    on_day AS day,
    cdn,
    at_vantage AS vantage,
    count() AS answered,
    countIf(gap IS NULL) AS no_handshake,
    countIf(gap = 0) AS same_datagram,
    if(answered = no_handshake, NULL, same_datagram / (answered - no_handshake)) AS same_datagram_share,
    if(answered = no_handshake, NULL, q[1]) AS p25_us,
    if(answered = no_handshake, NULL, q[2]) AS p50_us,
    if(answered = no_handshake, NULL, q[3]) AS p75_us,
    if(answered = no_handshake, NULL, q[4]) AS p90_us,
    if(answered = no_handshake, NULL, q[5]) AS p99_us
FROM
(
    SELECT
        if({by_day:Bool}, day, NULL) AS on_day,
        assumeNotNull(cdn) AS cdn,
        if({by_vantage:Bool}, vantage, NULL) AS at_vantage,
        sh_to_handshake_us AS gap
    FROM ${database}.quic_probe
    WHERE ${asked}
        AND outcome IN ('iack', 'coalesced', 'sh_first') AND attempts = 1
        AND ({outcome:String} = '' OR toString(outcome) = {outcome:String})
)
GROUP BY on_day, cdn, at_vantage
ORDER BY day, cdn = 'Others', cdn, vantage
