SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    count() AS handshakes,
    uniqExact(assumeNotNull(leaf_sha256)) AS leaves,
    quantileExact(0.5)(chain_length) AS chain_length_p50,
    quantileExact(0.1)(certificate_bytes) AS bytes_p10,
    quantileExact(0.5)(certificate_bytes) AS bytes_p50,
    quantileExact(0.9)(certificate_bytes) AS bytes_p90,
    quantileExact(0.5)(certificate_uncompressed_bytes) AS uncompressed_p50,
    countIf(certificate_compression IS NOT NULL) / count() AS compressed_share,
    countIf(ocsp_stapled) / nullIf(countIf(ocsp_stapled IS NOT NULL), 0) AS ocsp_share,
    countIf(embedded.scts > 0) / nullIf(countIf(embedded.scts IS NOT NULL), 0) AS scts_share,
    countIf(verified) / nullIf(countIf(verified IS NOT NULL), 0) AS verified_share,
    countIf(name_matches) / nullIf(countIf(name_matches IS NOT NULL), 0) AS name_matches_share
FROM ${database}.quic_handshake
-- Use each certificate once, because it is stored per vantage point and repetition.
LEFT JOIN
(
    SELECT sha256, max(scts) AS scts
    FROM ${database}.certificate
    WHERE ${of_run_with quic_handshake}
    GROUP BY sha256
) AS embedded ON leaf_sha256 = embedded.sha256
WHERE leaf_sha256 IS NOT NULL AND outcome = 'done'
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn
ORDER BY cdn = 'Others', cdn
