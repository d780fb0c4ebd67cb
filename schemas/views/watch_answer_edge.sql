-- A watch receives no headers. The location is taken from the newest handshake with the same name and address, else
-- with the same address, else with an address in the same prefix.
SELECT
    answer.vantage AS vantage,
    answer.planned_at AS planned_at,
    answer.hour AS hour,
    answer.cdn AS cdn,
    answer.purpose AS purpose,
    answer.first_answer AS first_answer,
    answer.domain AS domain,
    answer.ack_us AS ack_us,
    answer.sh_us AS sh_us,
    answer.ack_to_sh_us AS ack_to_sh_us,
    answer.ip AS ip,
    answer.family AS family,
    coalesce(of_name.edge_location, of_address.edge_location, of_prefix.edge_location) AS edge_location,
    multiIf(
        of_name.edge_location IS NOT NULL, 'name',
        of_address.edge_location IS NOT NULL, 'address',
        of_prefix.edge_location IS NOT NULL, 'prefix',
        NULL
    ) AS edge_by
FROM
(
    SELECT
        *,
        toIPv6OrDefault(ip) AS address,
        if(family = 4, IPv6CIDRToRange(address, 120).1, IPv6CIDRToRange(address, 48).1) AS prefix
    FROM ${database}.watch_answer
) AS answer
LEFT JOIN
(
    SELECT vantage, domain, address, CAST(edge_location, 'Nullable(String)') AS edge_location
    FROM ${database}.newest_edge
) AS of_name ON answer.vantage = of_name.vantage AND answer.domain = of_name.domain AND answer.address = of_name.address
LEFT JOIN
(
    SELECT vantage, address, CAST(argMax(newest_edge.edge_location, seen_at), 'Nullable(String)') AS edge_location
    FROM ${database}.newest_edge AS newest_edge
    GROUP BY vantage, address
) AS of_address ON answer.vantage = of_address.vantage AND answer.address = of_address.address
LEFT JOIN
(
    SELECT vantage, prefix, CAST(argMax(newest_edge.edge_location, seen_at), 'Nullable(String)') AS edge_location
    FROM ${database}.newest_edge AS newest_edge
    GROUP BY vantage, prefix
) AS of_prefix ON answer.vantage = of_prefix.vantage AND answer.prefix = of_prefix.prefix
