SELECT
    coalesce(CAST(cdn AS Nullable(String)), 'Others') AS of_cdn,
    CAST(quic_handshake.stack AS Nullable(String)) AS named,
    if(named IS NULL,
        arrayStringConcat(arraySort(splitByChar(',', assumeNotNull(stack_fingerprint))), ','),
        NULL) AS parameters,
    count() AS handshakes,
    uniqExact(domain) AS names,
    uniqExact(ip) AS addresses,
    uniqExact(assumeNotNull(stack_fingerprint)) AS fingerprints,
    handshakes / sum(handshakes) OVER (PARTITION BY of_cdn) AS share_of_cdn,
    min(assumeNotNull(stack_fingerprint)) AS example
FROM ${database}.quic_handshake
WHERE stack_fingerprint IS NOT NULL
    AND ${of_run}
    AND ({vantage:String} = '' OR vantage = {vantage:String})
    AND ({cdn:String} = '' OR of_cdn = {cdn:String})
    AND day BETWEEN {since:Date} AND {until:Date}
GROUP BY of_cdn, named, parameters
ORDER BY of_cdn = 'Others', of_cdn, handshakes DESC, named, parameters
LIMIT {limit:UInt32}
