WITH
-- Each row appears once more without a parameter, to count rows.
of_rows AS
(
    SELECT
        coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
        arrayJoin(arrayPushFront(
            arrayDistinct(arrayMap(
                -- Reserved parameters (RFC 9000 18.1) have random ids and values.
                one -> if(JSONExtractString(one, 'name') = 'grease',
                    ('reserved', 'grease', ''),
                    (JSONExtractString(one, 'id'), JSONExtractString(one, 'name'), JSONExtractRaw(one, 'value'))),
                arrayFilter(one -> JSONHas(one, 'id'), JSONExtractArrayRaw(assumeNotNull(transport_parameters))))),
            ('', '', ''))) AS parameter
    FROM ${database}.quic_handshake
    WHERE transport_parameters IS NOT NULL
        AND ${of_run_with quic_handshake}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
),
of_values AS
(
    SELECT
        cdn,
        parameter.1 AS id,
        parameter.2 AS named,
        parameter.3 AS shown,
        count() AS times
    FROM of_rows
    GROUP BY cdn, id, named, shown
),
of_ids AS
(
    SELECT
        cdn,
        id,
        named,
        sum(times) AS handshakes,
        count() AS different,
        argMax(shown, (times, shown)) AS common,
        max(times) AS common_times,
        maxIf(handshakes, id = '') OVER (PARTITION BY cdn) AS of_all
    FROM of_values
    GROUP BY cdn, id, named
)
SELECT
    cdn,
    id,
    nullIf(named, '') AS name,
    handshakes,
    handshakes / of_all AS share_of_cdn,
    different AS distinct_values,
    -- These values differ in every connection (RFC 9000 18.2), so the most frequent one has no meaning.
    if(common = '' OR named IN ('original_destination_connection_id', 'stateless_reset_token', 'preferred_address',
        'initial_source_connection_id', 'retry_source_connection_id'), NULL, common) AS common_value,
    if(common_value IS NULL, NULL, common_times / handshakes) AS common_share
FROM of_ids
WHERE id != ''
ORDER BY cdn = 'Others', cdn, handshakes DESC, id
LIMIT {limit:UInt32}
