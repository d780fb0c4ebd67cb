SELECT
    run,
    vantage,
    repetition,
    by_asn,
    by_cname,
    by_header,
    by_certificate,
    any(agreement) AS agreement,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names
FROM ${database}.handshake_cdn
GROUP BY run, vantage, repetition, by_asn, by_cname, by_header, by_certificate
ORDER BY run, vantage, repetition, handshakes DESC, by_asn, by_cname, by_header, by_certificate
