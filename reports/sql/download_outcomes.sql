-- How the downloads of the run ended, by vantage point and set; limited: successful ones that this machine may have limited.
SELECT
    vantage,
    toString(`set`) AS `set`,
    count() AS planned,
    countIf(outcome IN ('done', 'stopped_limit')) AS successful,
    countIf(outcome IN ('done', 'stopped_limit') AND coalesce(client_limited, false)) AS limited,
    countIf(outcome = 'skipped') AS skipped,
    planned - successful - skipped AS failed,
    uniqExact(domain) AS names,
    -- The lab's addresses (RFC 2544, RFC 3849); without an address nothing was asked.
    countIf(isIPAddressInRange(ifNull(ip, '::'), '198.18.0.0/15') OR isIPAddressInRange(ifNull(ip, '::'), '2001:db8::/32')) AS in_lab
FROM ${database}.download AS d
WHERE run = {run:String}
GROUP BY vantage, d.set
ORDER BY vantage, d.set
