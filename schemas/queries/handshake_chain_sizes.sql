SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    count() AS handshakes,
    uniqExact(assumeNotNull(chain_sha256)) AS chains,
    uniqExactIf(assumeNotNull(chain_sha256), certificate_bytes > 3 * bytes_sent_unvalidated) AS chains_over_limit,
    countIf(certificate_bytes > 3 * bytes_sent_unvalidated) / count() AS over_limit_share,
    countIf(certificate_uncompressed_bytes > 3 * bytes_sent_unvalidated)
        / nullIf(countIf(certificate_uncompressed_bytes IS NOT NULL), 0) AS uncompressed_over_limit_share,
    countIf(bytes_received_handshake > 3 * bytes_sent_unvalidated)
        / nullIf(countIf(bytes_received_handshake IS NOT NULL), 0) AS flight_over_limit_share,
    countIf(bytes_received_unvalidated > 3 * bytes_sent_unvalidated)
        / nullIf(countIf(bytes_received_unvalidated IS NOT NULL), 0) AS exceeded_share,
    quantileExact(0.5)(certificate_bytes) AS bytes_p50,
    max(certificate_bytes) AS bytes_max,
    quantileExact(0.5)(3 * bytes_sent_unvalidated) AS limit_p50
FROM ${database}.quic_handshake
WHERE outcome = 'done' AND chain_sha256 IS NOT NULL AND certificate_bytes IS NOT NULL
    -- A token from a Retry proves the address, so the limit does not apply.
    AND bytes_sent_unvalidated > 0 AND NOT ifNull(retry, true)
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn
ORDER BY cdn = 'Others', cdn
