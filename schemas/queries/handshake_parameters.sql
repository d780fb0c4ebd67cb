WITH
-- Each row appears once more without a parameter, to count rows.
of_rows AS
(
    SELECT
        coalesce(CAST(cdn AS Nullable(String)), 'Others') AS of_cdn,
        arrayJoin(arrayPushFront(
            arrayDistinct(arrayMap(
                -- The reserved ones (RFC 9000 18.1) are random, and so are their values.
                one -> if(JSONExtractString(one, 'name') = 'grease',
                    ('reserved', 'grease', ''),
                    (JSONExtractString(one, 'id'), JSONExtractString(one, 'name'), JSONExtractRaw(one, 'value'))),
                arrayFilter(one -> JSONHas(one, 'id'), JSONExtractArrayRaw(assumeNotNull(transport_parameters))))),
            ('', '', ''))) AS parameter
    FROM ${database}.quic_handshake
    WHERE transport_parameters IS NOT NULL
        AND ${of_run}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR of_cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
),
of_values AS
(
    SELECT
        of_cdn,
        parameter.1 AS id,
        parameter.2 AS named,
        parameter.3 AS shown,
        count() AS times
    FROM of_rows
    GROUP BY of_cdn, id, named, shown
),
of_ids AS
(
    SELECT
        of_cdn,
        id,
        named,
        sum(times) AS handshakes,
        count() AS different,
        argMax(shown, (times, shown)) AS common,
        max(times) AS common_times,
        maxIf(handshakes, id = '') OVER (PARTITION BY of_cdn) AS of_all
    FROM of_values
    GROUP BY of_cdn, id, named
)
SELECT
    of_cdn,
    id,
    nullIf(named, '') AS name,
    handshakes,
    handshakes / of_all AS share_of_cdn,
    different AS distinct_values,
    common AS common_value,
    common_times / handshakes AS common_share
FROM of_ids
WHERE id != ''
ORDER BY of_cdn = 'Others', of_cdn, handshakes DESC, id
LIMIT {limit:UInt32}
