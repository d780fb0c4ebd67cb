SELECT
    coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
    CAST(quic_handshake.stack AS Nullable(String)) AS stack,
    if(stack IS NULL,
        arrayStringConcat(arraySort(splitByChar(',', assumeNotNull(stack_fingerprint))), ','),
        NULL) AS parameters,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    uniqExact(ip) AS addresses,
    uniqExact(assumeNotNull(stack_fingerprint)) AS fingerprints,
    handshakes / sum(handshakes) OVER (PARTITION BY cdn) AS share_of_cdn,
    min(assumeNotNull(stack_fingerprint)) AS example
FROM ${database}.quic_handshake
WHERE stack_fingerprint IS NOT NULL
    AND ${of_run_with quic_handshake}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY cdn, stack, parameters
ORDER BY cdn = 'Others', cdn, handshakes DESC, stack, parameters
LIMIT {limit:UInt32}
