-- Probes of each vantage point in each repetition; first_address = the first IPv4 address of each name.
SELECT
    vantage,
    repetition,
    toDate(min(sent_at)) AS first_day,
    min(sent_at) AS first_sent,
    max(sent_at) AS last_sent,
    count() AS probes,
    countIf(address_rank = 0 AND family = 4) AS first_address,
    countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
    countIf(outcome IN ('send_failed', 'blocked')) AS not_sent,
    countIf(cdn IS NULL) AS without_cdn,
    -- The lab's addresses (RFC 2544, RFC 3849).
    countIf(isIPAddressInRange(ip, '198.18.0.0/15') OR isIPAddressInRange(ip, '2001:db8::/32')) AS in_lab,
    arraySort(groupUniqArray(list_id)) AS lists,
    arraySort(groupUniqArray(resolver)) AS resolvers,
    arraySort(groupUniqArray(src_ip)) AS sources,
    arraySort(groupUniqArray(tool_version)) AS tool_versions,
    arraySort(groupUniqArray(ruleset)) AS rulesets
FROM ${database}.quic_probe
WHERE run = {run:String} AND day BETWEEN {first:Date} AND {last:Date}
GROUP BY vantage, repetition
ORDER BY vantage, repetition
