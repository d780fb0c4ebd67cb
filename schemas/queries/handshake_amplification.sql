SELECT
    cdn,
    count() AS handshakes,
    quantileExact(0.5)(first_flight) AS first_flight_p50,
    max(first_flight) AS first_flight_max,
    countIf(first_flight > 3) / nullIf(count(first_flight), 0) AS first_flight_above_share,
    quantileExact(0.5)(unvalidated) AS unvalidated_p50,
    max(unvalidated) AS unvalidated_max,
    countIf(unvalidated > 3) / nullIf(count(unvalidated), 0) AS unvalidated_above_share,
    quantileExact(0.5)(whole) AS handshake_p50,
    max(whole) AS handshake_max,
    countIf(whole > 3) / nullIf(count(whole), 0) AS handshake_above_share
FROM
(
    SELECT
        coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
        -- Each datagram of the ClientHello has the full size, which depends only on the family.
        bytes_first_flight / nullIf(hello_datagrams * if(family = 4, 1252, 1232), 0) AS first_flight,
        bytes_received_unvalidated / nullIf(bytes_sent_unvalidated, 0) AS unvalidated,
        bytes_received_handshake / nullIf(bytes_sent_unvalidated, 0) AS whole
    FROM ${database}.quic_handshake
    -- The token of a Retry proves the address, so there is no amplification.
    WHERE bytes_received > 0 AND NOT ifNull(retry, true)
        AND ${of_run_with quic_handshake}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
)
GROUP BY cdn
ORDER BY cdn = 'Others', cdn
