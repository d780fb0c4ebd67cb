-- Each record kind is first grouped to one tuple per key. Then the four kinds are combined; a kind without rows has an empty
-- array, so that its elements are null and its counts 0. The first groupings follow the tables' order (the key starts
-- with domain). The last one spills to disk beyond 256 MiB; a join of the four would stay in memory.
SELECT
    domain,
    ip,
    vantage,
    day,
    coalesce(probed[1].1.1, connected[1].1.1, surveyed[1].1.1, downloaded[1].1) AS cdn,
    probed[1].2 AS probes,
    probed[1].1.2 AS first_answer,
    probed[1].1.3 AS ack_us,
    probed[1].1.4 - probed[1].1.3 AS ack_to_sh_us,
    connected[1].2 AS handshakes,
    connected[1].1.2 AS handshake,
    connected[1].1.3 AS handshake_first_answer,
    connected[1].1.4 AS handshake_us,
    connected[1].1.5 AS stack,
    surveyed[1].2 AS option_answers,
    surveyed[1].1.2 AS ecn,
    surveyed[1].1.3 AS sack,
    surveyed[1].1.4 AS window_scaling,
    surveyed[1].1.5 AS wscale,
    surveyed[1].1.6 AS timestamps,
    surveyed[1].1.7 AS mss,
    downloaded[1].2 AS downloads,
    downloaded[1].3 AS downloads_limited,
    ${each download.set} downloaded[1].4[{number}] AS {value}_bps
FROM
(
    SELECT
        domain,
        ip,
        vantage,
        day,
        groupArrayArray(of_probes) AS probed,
        groupArrayArray(of_handshakes) AS connected,
        groupArrayArray(of_survey) AS surveyed,
        groupArrayArray(of_downloads) AS downloaded
    FROM
    (
        SELECT
            domain,
            ip,
            toString(vantage) AS vantage,
            day,
            [(
                argMin(
                    (
                        CAST(cdn, 'Nullable(String)'),
                        CAST(toString(outcome), 'Nullable(String)'),
                        if(attempts > 1, NULL, ack_us),
                        if(attempts > 1, NULL, sh_us)
                    ),
                    (assumeNotNull(sent_at), port, run)),
                count()
            )] AS of_probes,
            [] AS of_handshakes,
            [] AS of_survey,
            [] AS of_downloads
        FROM ${database}.quic_probe
        WHERE domain != '' AND sent_at IS NOT NULL AND slot IS NULL
        GROUP BY domain, ip, vantage, day
        UNION ALL
        SELECT
            domain,
            ip,
            toString(vantage) AS vantage,
            day,
            [] AS of_probes,
            [(
                argMin(
                    (
                        CAST(cdn, 'Nullable(String)'),
                        CAST(toString(outcome), 'Nullable(String)'),
                        CAST(toString(first_answer), 'Nullable(String)'),
                        handshake_us,
                        CAST(stack, 'Nullable(String)')
                    ),
                    (assumeNotNull(sent_at), port, run)),
                count()
            )] AS of_handshakes,
            [] AS of_survey,
            [] AS of_downloads
        FROM ${database}.quic_handshake
        WHERE domain != '' AND sent_at IS NOT NULL
        GROUP BY domain, ip, vantage, day
        UNION ALL
        SELECT
            domain,
            ip,
            toString(vantage) AS vantage,
            toDate(assumeNotNull(sent_at)) AS day,
            [] AS of_probes,
            [] AS of_handshakes,
            [(
                argMin(
                    (CAST(cdn, 'Nullable(String)'), ecn, sack, window_scaling, wscale, timestamps, mss),
                    (
                        ecn IS NULL OR sack IS NULL OR window_scaling IS NULL,
                        outcome != 'answered',
                        assumeNotNull(sent_at),
                        port,
                        run
                    )),
                countIf(outcome = 'answered')
            )] AS of_survey,
            [] AS of_downloads
        FROM ${database}.tcp_option
        WHERE domain != '' AND sent_at IS NOT NULL
        GROUP BY domain, ip, vantage, day
        UNION ALL
        SELECT
            domain,
            assumeNotNull(address) AS ip,
            toString(vantage) AS vantage,
            day,
            [] AS of_probes,
            [] AS of_handshakes,
            [] AS of_survey,
            [(
                max(CAST(cdn, 'Nullable(String)')),
                countIf(counted),
                countIf(NOT counted),
                [
                    ${each download.set} quantileExactInclusiveIfOrNull(0.5)(bps, counted AND `set` = '{value}')
                ]
            )] AS of_downloads
        FROM
        (
            SELECT
                domain,
                download.ip AS address,
                vantage,
                toDate(assumeNotNull(started_at)) AS day,
                download.cdn AS cdn,
                `set`,
                download_throughput_bps AS bps,
                NOT ifNull(client_limited, false) AS counted
            FROM ${database}.download
            WHERE started_at IS NOT NULL AND download.ip IS NOT NULL AND outcome IN ('done', 'stopped_limit')
                AND download_throughput_bps > 0
        )
        GROUP BY domain, address, vantage, day
    )
    GROUP BY domain, ip, vantage, day
)
SETTINGS max_bytes_before_external_group_by = 268435456, optimize_aggregation_in_order = 1
