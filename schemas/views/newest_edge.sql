-- Addresses are compared as IPv6 (IPv4 in ::ffff:0:0/96), because rows contain them as given.
SELECT
    toString(vantage) AS vantage,
    toString(domain) AS domain,
    toIPv6OrDefault(ip) AS address,
    if(family = 4, IPv6CIDRToRange(address, 120).1, IPv6CIDRToRange(address, 48).1) AS prefix,
    argMax(assumeNotNull(toString(quic_handshake.edge_location)), quic_handshake.sent_at) AS edge_location,
    max(assumeNotNull(quic_handshake.sent_at)) AS seen_at
FROM ${database}.quic_handshake
WHERE quic_handshake.edge_location IS NOT NULL AND quic_handshake.sent_at IS NOT NULL
GROUP BY vantage, domain, address, prefix
