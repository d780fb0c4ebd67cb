SELECT
    domain,
    ip,
    by_asn AS cdn_by_asn,
    by_cname AS cdn_by_cname,
    by_header AS cdn_by_header,
    by_certificate AS cdn_by_certificate,
    agreement,
    argMax((handshake_cdn.server_header,), sent_at).1 AS server_header,
    argMax(handshake_cdn.edge_location, sent_at) AS edge_location,
    arraySort(groupUniqArray(toString(vantage))) AS vantages,
    count() AS handshakes,
    max(sent_at) AS last_at
FROM ${database}.handshake_cdn
WHERE ${cdn_asked}
    AND agreement = {agreement:String}
GROUP BY domain, ip, by_asn, by_cname, by_header, by_certificate, agreement
ORDER BY domain, ip, cdn_by_asn, cdn_by_cname, cdn_by_header, cdn_by_certificate
LIMIT {limit:UInt32}
