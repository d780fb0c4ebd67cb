-- Pairs of a probe and a handshake with the same address: interleaved pairs from the calibrate stage, and pairs from the stages
-- probe and handshake. `state` is 'compared', or the reason why a pair is not compared. 999 ms is a client's first probe timeout
-- (RFC 9002 6.2.2): a later answer may belong to a second Initial.
SELECT
    *,
    probe IN ('iack', 'coalesced', 'sh_first') AS probe_answered,
    handshake IN ('iack', 'coalesced', 'sh_first') AS handshake_answered,
    abs(toUnixTimestamp64Nano(probe_sent_at) - toUnixTimestamp64Nano(handshake_sent_at)) / 1e9 AS apart_s,
    ifNull(least(probe_ack_us, ifNull(probe_sh_us, probe_ack_us)), probe_sh_us) AS probe_first_us,
    ifNull(least(handshake_ack_us, ifNull(handshake_sh_us, handshake_ack_us)), handshake_sh_us) AS handshake_first_us,
    multiIf(
        probe_sent_at IS NULL OR handshake_sent_at IS NULL, 'not_sent',
        NOT probe_answered AND NOT handshake_answered, 'both_failed',
        NOT probe_answered, 'probe_failed',
        NOT handshake_answered, 'handshake_failed',
        attempts > 1 OR (retransmissions > 0 AND handshake_first_us >= 999000), 'repeated',
        source = 'interleaved' AND apart_s > {most_apart_s:Float64}, 'apart',
        'compared') AS state
FROM
(
    SELECT
        'interleaved' AS source,
        CAST(cdn, 'Nullable(String)') AS cdn,
        toString(probe_outcome) AS probe,
        ifNull(toString(handshake_first_answer), toString(handshake_outcome)) AS handshake,
        probe_sent_at,
        handshake_sent_at,
        probe_ack_us,
        probe_sh_us,
        handshake_ack_us,
        handshake_sh_us,
        toUInt32(probe_attempts) AS attempts,
        toUInt32(handshake_retransmissions) AS retransmissions
    FROM ${database}.calibration
    WHERE ${of_run_with calibration, quic_handshake}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
    UNION ALL
    SELECT
        'stages' AS source,
        CAST(probes.cdn, 'Nullable(String)') AS cdn,
        toString(probes.outcome) AS probe,
        ifNull(toString(handshakes.first_answer), toString(handshakes.outcome)) AS handshake,
        probes.sent_at AS probe_sent_at,
        handshakes.sent_at AS handshake_sent_at,
        probes.ack_us AS probe_ack_us,
        probes.sh_us AS probe_sh_us,
        handshakes.ack_us AS handshake_ack_us,
        handshakes.sh_us AS handshake_sh_us,
        toUInt32(probes.attempts) AS attempts,
        toUInt32(ifNull(handshakes.retransmissions, 0)) AS retransmissions
    FROM
    (
        SELECT run, vantage, repetition, domain, ip, port, cdn, outcome, sent_at, ack_us, sh_us, attempts
        FROM ${database}.quic_probe
        WHERE ${of_run_with calibration, quic_handshake}
            AND ({vantage:String} = '' OR vantage = {vantage:String})
            AND slot IS NULL
    ) AS probes
    INNER JOIN
    (
        SELECT run, vantage, repetition, domain, ip, port, outcome, first_answer, sent_at, ack_us, sh_us, retransmissions
        FROM ${database}.quic_handshake
        WHERE ${of_run_with calibration, quic_handshake}
            AND ({vantage:String} = '' OR vantage = {vantage:String})
    ) AS handshakes USING (run, vantage, repetition, domain, ip, port)
)
