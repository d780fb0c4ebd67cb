SELECT
    experiment,
    replaceOne(cell, concat('-', toString(answering), '-'), '-') AS pair,
    server,
    client,
    rtt_ms,
    rate_mbit,
    rate_to_server_mbit,
    queue_packets,
    queue_to_server_packets,
    queue_bytes,
    certificate_bytes,
    certificate_delay_ms,
    loss_percent,
    drop_second_flight,
    body_bytes,
    qdisc,
    gso,
    gso_paced,
    congestion_control,
    ack_policy,
    countIf(answering = 'wfc') AS wfc_trials,
    countIf(answering = 'wfc' AND outcome = 'done') AS wfc_done,
    countIf(answering = 'iack') AS iack_trials,
    countIf(answering = 'iack' AND outcome = 'done') AS iack_done,
    quantileExactInclusiveOrNullIf(0.5)(first_stream_us, answering = 'wfc' AND outcome = 'done') / 1000 AS wfc_first_stream_ms,
    quantileExactInclusiveOrNullIf(0.5)(first_stream_us, answering = 'iack' AND outcome = 'done') / 1000 AS iack_first_stream_ms,
    wfc_first_stream_ms - iack_first_stream_ms AS gain_ms,
    quantileExactInclusiveOrNullIf(0.5)(pto_first_us, answering = 'wfc' AND outcome = 'done') / 1000 AS wfc_pto_first_ms,
    quantileExactInclusiveOrNullIf(0.5)(pto_first_us, answering = 'iack' AND outcome = 'done') / 1000 AS iack_pto_first_ms,
    wfc_pto_first_ms - iack_pto_first_ms AS pto_gain_ms,
    quantileExactInclusiveOrNullIf(0.5)(rtt_first_us, answering = 'iack' AND outcome = 'done') / 1000 AS rtt_first_ms,
    quantileExactInclusiveOrNullIf(0.5)(first_ack_us, answering = 'wfc' AND outcome = 'done') / 1000
        - quantileExactInclusiveOrNullIf(0.5)(first_ack_us, answering = 'iack' AND outcome = 'done') / 1000 AS g_ms,
    countIf(answering = 'wfc' AND outcome = 'done' AND partial_ack_us IS NOT NULL) AS partial_acks
FROM ${database}.testbed_trial
WHERE {experiment:String} = '' OR experiment = {experiment:String}
GROUP BY
    experiment, pair, server, client, rtt_ms, rate_mbit, rate_to_server_mbit, queue_packets, queue_to_server_packets, queue_bytes,
    certificate_bytes, certificate_delay_ms, loss_percent, drop_second_flight, body_bytes, qdisc, gso, gso_paced,
    congestion_control, ack_policy
ORDER BY
    experiment, server, rtt_ms, client, rate_mbit, rate_to_server_mbit, queue_packets, queue_to_server_packets, queue_bytes,
    certificate_bytes, certificate_delay_ms, loss_percent, drop_second_flight, body_bytes, qdisc, gso, gso_paced,
    congestion_control, ack_policy, pair
