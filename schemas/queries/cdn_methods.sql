SELECT
    by_asn,
    by_cname,
    by_header,
    by_certificate,
    any(agreement) AS agreement,
    count() AS handshakes,
    uniqExactIf(domain, domain != '') AS names,
    handshakes / sum(handshakes) OVER () AS share
FROM ${database}.handshake_cdn
WHERE ${cdn_asked}
GROUP BY by_asn, by_cname, by_header, by_certificate
ORDER BY handshakes DESC, by_asn, by_cname, by_header, by_certificate
LIMIT {limit:UInt32}
