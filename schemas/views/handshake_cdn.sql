-- The methods as plain text, because an array cannot mix LowCardinality columns.
SELECT
    run,
    vantage,
    repetition,
    day,
    sent_at,
    domain,
    ip,
    family,
    CAST(cdn_by_asn, 'Nullable(String)') AS by_asn,
    CAST(cdn_by_cname, 'Nullable(String)') AS by_cname,
    CAST(cdn_by_header, 'Nullable(String)') AS by_header,
    CAST(cdn_by_certificate, 'Nullable(String)') AS by_certificate,
    ${cdn_agreement} AS agreement,
    CAST(server_header, 'Nullable(String)') AS server_header,
    CAST(edge_location, 'Nullable(String)') AS edge_location
FROM ${database}.quic_handshake
WHERE outcome = 'done'
