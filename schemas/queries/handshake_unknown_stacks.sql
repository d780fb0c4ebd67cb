SELECT
    assumeNotNull(sorted) AS parameters,
    handshakes,
    names,
    addresses,
    cdns,
    fingerprints,
    handshakes / of_unknown AS share_of_unknown,
    handshakes / of_all AS share,
    example
FROM (
    SELECT
        if(quic_handshake.stack IS NULL,
            arrayStringConcat(arraySort(splitByChar(',', assumeNotNull(stack_fingerprint))), ','),
            NULL) AS sorted,
        count() AS handshakes,
        uniqExactIf(domain, domain != '') AS names,
        uniqExact(ip) AS addresses,
        uniqExact(coalesce(CAST(cdn AS Nullable(String)), 'Others')) AS cdns,
        uniqExact(assumeNotNull(stack_fingerprint)) AS fingerprints,
        min(assumeNotNull(stack_fingerprint)) AS example,
        sumIf(handshakes, sorted IS NOT NULL) OVER () AS of_unknown,
        sum(handshakes) OVER () AS of_all
    FROM ${database}.quic_handshake
    WHERE stack_fingerprint IS NOT NULL
        AND ${of_run_with quic_handshake}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
    GROUP BY sorted
)
WHERE sorted IS NOT NULL
ORDER BY handshakes DESC, parameters
LIMIT {limit:UInt32}
