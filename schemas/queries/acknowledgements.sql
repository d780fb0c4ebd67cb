SELECT
    download.of_set AS `set`,
    ack.vantage AS vantage,
    acks_from,
    count() AS connections,
    sum(peer_packets) AS packets,
    sum(ack_packets) AS acks,
    if(acks > 0, sum(peer_eliciting_acked) / acks, NULL) AS eliciting_per_ack,
    quantileExactInclusiveOrNull(0.5)(eliciting_per_ack_first100) AS first100_p50,
    quantileExactInclusiveOrNull(0.5)(eliciting_per_ack_after100) AS after100_p50,
    sumOrNull(acks_by_count + acks_by_timer + acks_by_reordering) AS timed,
    if(timed > 0, sum(acks_by_timer) / timed, NULL) AS timer_share,
    if(timed > 0, sum(acks_by_reordering) / timed, NULL) AS reordering_share,
    if(acks > 0, sum(bundled_packets) / acks, NULL) AS bundled_share,
    quantileExactInclusiveOrNull(0.5)(ack_only_ip_bytes_p50) AS ack_bytes_p50,
    if(packets > 0, sum(ack_only_ip_bytes) / packets, NULL) AS ack_bytes_per_packet,
    quantileExactInclusiveOrNull(0.5)(wait_p50_us) / 1000 AS wait_p50_ms,
    sum(acked_unseen) AS unseen
FROM
(
    SELECT *
    FROM ${database}.quic_ack
    WHERE ack_packets IS NOT NULL
        AND ${of_run_with download}
        AND ({vantage:String} = '' OR quic_ack.vantage = {vantage:String})
) AS ack
LEFT JOIN
(
    SELECT
        run,
        vantage,
        repetition,
        client_port,
        toUnixTimestamp64Nano(flow_started_at) AS start_time_ns,
        toNullable(toString(any(`set`))) AS of_set
    FROM ${database}.download
    WHERE flow_started_at IS NOT NULL AND client_port IS NOT NULL
    GROUP BY run, vantage, repetition, client_port, start_time_ns
) AS download
ON ack.run = download.run AND ack.vantage = download.vantage AND ack.repetition = download.repetition
    AND ack.client_port = download.client_port AND ack.start_time_ns = download.start_time_ns
GROUP BY `set`, vantage, acks_from
ORDER BY `set`, vantage, acks_from
