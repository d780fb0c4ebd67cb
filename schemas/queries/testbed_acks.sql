SELECT
    experiment,
    cell,
    server,
    client,
    rtt_ms,
    delay_to_server_ms,
    rate_mbit,
    rate_to_server_mbit,
    loss_percent,
    netem_loss_to_client_percent,
    netem_loss_to_server_percent,
    reorder_percent,
    reorder_ms,
    body_bytes,
    congestion_control,
    ack_policy,
    count() AS trials,
    countIf(outcome = 'done') AS done,
    quantileExactInclusiveOrNullIf(0.5)(transfer_us, outcome = 'done') / 1000 AS transfer_ms,
    quantileExactInclusiveOrNullIf(0.5)(ack_packets, outcome = 'done') AS acks_p50,
    quantileExactInclusiveOrNullIf(0.5)(eliciting_per_ack, outcome = 'done') AS eliciting_per_ack_p50,
    quantileExactInclusiveOrNullIf(0.5)(
        acks_by_timer / nullIf(acks_by_count + acks_by_timer + acks_by_reordering, 0), outcome = 'done') AS timer_share_p50,
    quantileExactInclusiveOrNullIf(0.5)(bundled_packets / nullIf(ack_packets, 0), outcome = 'done') AS bundled_share_p50,
    quantileExactInclusiveOrNullIf(0.5)(ack_only_ip_bytes_p50, outcome = 'done') AS ack_bytes_p50,
    quantileExactInclusiveOrNullIf(0.5)(ip_bytes_client / nullIf(ip_bytes_server, 0), outcome = 'done') AS client_share_p50,
    quantileExactInclusiveOrNullIf(0.5)(queue_drops, outcome = 'done') AS queue_drops_p50
FROM ${database}.testbed_trial
WHERE body_bytes > 0 AND ({experiment:String} = '' OR experiment = {experiment:String})
GROUP BY
    experiment, cell, server, client, rtt_ms, delay_to_server_ms, rate_mbit, rate_to_server_mbit, loss_percent, netem_loss_to_client_percent,
    netem_loss_to_server_percent, reorder_percent, reorder_ms, body_bytes, congestion_control, ack_policy
ORDER BY
    experiment, rtt_ms, client, server, cell, delay_to_server_ms, netem_loss_to_client_percent, netem_loss_to_server_percent,
    reorder_percent, reorder_ms
