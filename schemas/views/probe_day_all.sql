SELECT
    run, vantage, repetition, day, CAST(cdn, 'Nullable(String)') AS cdn, family, first_address, probes, sent,
    iack, coalesced, sh_first, closed, ack_only, retry, version_negotiation, refused, malformed, timeout,
    send_failed, blocked, counted, instant, names, first_at, last_at, first_iack_at, iack_delays, spurious,
    amplified, amplified_above_3, amplification_max, sized_iack, padded_iack, iack_ack_bytes, iack_budget_bytes, ack_us,
    iack_to_sh_us, sh_to_handshake_us, ack_delay_us
FROM ${database}.probe_day
WHERE (run, vantage, repetition) NOT IN (SELECT run, vantage, repetition FROM ${database}.unit_not_rolled_up)
UNION ALL
${derived_probe_day}
