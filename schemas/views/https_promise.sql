-- Names with queried HTTPS records, the promises in these records (RFC 9460), and the answers from the names' addresses
-- in the same repetition. Any QUIC packet in response to a probe proves that the address speaks QUIC.
WITH
    arraySort(arrayFilter(address -> position(address, ':') = 0, hints)) AS hints_4,
    arraySort(arrayFilter(address -> position(address, ':') > 0, hints)) AS hints_6
SELECT
    run,
    vantage,
    repetition,
    domain,
    ifNull(probed.probed_cdn, connected.connected_cdn) AS cdn,
    has_record,
    is_alias,
    promises_h3,
    https_port,
    https_ech,
    hints_4 AS ipv4_hints,
    hints_6 AS ipv6_hints,
    addresses_4 AS ipv4_addresses,
    addresses_6 AS ipv6_addresses,
    multiIf(empty(hints_4) OR empty(addresses_4), NULL, hints_4 = addresses_4, 'equal', hasAll(addresses_4, hints_4), 'part',
        hasAny(addresses_4, hints_4), 'overlap', 'other') AS ipv4_hints_are,
    multiIf(empty(hints_6) OR empty(addresses_6), NULL, hints_6 = addresses_6, 'equal', hasAll(addresses_6, hints_6), 'part',
        hasAny(addresses_6, hints_6), 'overlap', 'other') AS ipv6_hints_are,
    ifNull(probed.probes, 0) AS probes,
    ifNull(probed.answered, 0) AS answered,
    ifNull(connected.handshakes, 0) AS handshakes,
    ifNull(connected.completed, 0) AS completed,
    alt_svc_h3,
    alt_svc_tcp_h3,
    multiIf(answered + ifNull(connected.spoke, 0) > 0, true, probes + handshakes > 0, false, NULL) AS speaks_quic,
    multiIf(speaks_quic IS NULL OR promises_h3 IS NULL, NULL, promises_h3 AND speaks_quic, 'kept', promises_h3, 'broken',
        speaks_quic, 'not_promised', 'neither') AS promise,
    multiIf(speaks_quic IS NULL OR alt_svc_tcp_h3 IS NULL, NULL, alt_svc_tcp_h3 AND speaks_quic, 'kept', alt_svc_tcp_h3, 'broken',
        speaks_quic, 'not_promised', 'neither') AS alt_svc_promise,
    ifNull(connected.ech_offers, 0) AS ech_offers,
    ech_config_ids,
    connected.ech_sent_ids AS ech_sent_config_ids,
    multiIf(empty(ech_config_ids) OR empty(ech_sent_config_ids), NULL, ech_config_ids = ech_sent_config_ids, 'equal',
        hasAll(ech_config_ids, ech_sent_config_ids), 'part', hasAny(ech_config_ids, ech_sent_config_ids), 'overlap', 'other') AS ech_configs_are,
    multiIf(ifNull(connected.ech_taken, 0) > 0 OR notEmpty(ech_sent_config_ids), true,
        ifNull(connected.ech_answered, 0) > 0, false, NULL) AS speaks_ech,
    -- A real offer uses the record's configuration. A server that rejects it breaks the promise, whatever it sends instead.
    multiIf(speaks_ech IS NULL OR has_record IS NULL, NULL,
        https_ech AND (connected.ech_taken > 0 OR connected.ech_refused = 0 AND speaks_ech AND ifNull(ech_configs_are, '') != 'other'), 'kept',
        https_ech, 'broken', speaks_ech, 'not_promised', 'neither') AS ech_promise
FROM
(
    SELECT
        run,
        vantage,
        repetition,
        domain,
        -- A failed resolver gives no information on the record.
        if(countIf(qtype = 'HTTPS' AND status IN ('NOERROR', 'NODATA', 'NXDOMAIN')) = 0, NULL,
            countIf(qtype = 'HTTPS' AND status = 'NOERROR') > 0) AS has_record,
        countIf(https_priority = 0) > 0 AS is_alias,
        if(countIf(qtype = 'HTTPS' AND status IN ('NOERROR', 'NODATA', 'NXDOMAIN')) = 0, NULL,
            countIf(has(https_alpn, 'h3') AND https_priority > 0) > 0) AS promises_h3,
        anyIf(https_port, https_port IS NOT NULL) AS https_port,
        if(has_record, countIf(https_ech) > 0, NULL) AS https_ech,
        arraySort(groupUniqArrayArray(https_ech_config_ids)) AS ech_config_ids,
        groupUniqArrayArray(arrayConcat(https_ipv4hint, https_ipv6hint)) AS hints,
        arraySort(groupUniqArrayIf(assumeNotNull(address), qtype = 'A' AND address IS NOT NULL)) AS addresses_4,
        arraySort(groupUniqArrayIf(assumeNotNull(address), qtype = 'AAAA' AND address IS NOT NULL)) AS addresses_6
    FROM ${database}.dns_answer
    GROUP BY run, vantage, repetition, domain
    HAVING countIf(qtype = 'HTTPS') > 0
) AS asked
LEFT JOIN
(
    SELECT
        run,
        vantage,
        repetition,
        domain,
        any(cdn) AS probed_cdn,
        countIf(outcome NOT IN ('blocked', 'send_failed')) AS probes,
        countIf(${spoke_quic}) AS answered
    FROM ${database}.quic_probe
    GROUP BY run, vantage, repetition, domain
) AS probed USING (run, vantage, repetition, domain)
LEFT JOIN
(
    SELECT
        run,
        vantage,
        repetition,
        domain,
        any(cdn) AS connected_cdn,
        countIf(outcome NOT IN ('blocked', 'send_failed')) AS handshakes,
        countIf(outcome = 'done') AS completed,
        countIf(outcome IN ('done', 'closed', 'version_negotiation', 'retry_loop') OR first_answer IS NOT NULL) AS spoke,
        countIf(ech_offered IS NOT NULL) AS ech_offers,
        countIf(ech_accepted) AS ech_taken,
        countIf(NOT ech_accepted) AS ech_refused,
        countIf(ech_offered = 'grease' AND outcome = 'done' OR NOT ech_accepted) AS ech_answered,
        arraySort(groupUniqArrayArray(ech_retry_config_ids)) AS ech_sent_ids
    FROM ${database}.quic_handshake
    GROUP BY run, vantage, repetition, domain
) AS connected USING (run, vantage, repetition, domain)
LEFT JOIN
(
    SELECT
        run,
        vantage,
        repetition,
        domain,
        CAST(countIf(match(ifNull(alt_svc, ''), '(^|[ ,])h3=')) > 0, 'Nullable(Bool)') AS alt_svc_h3
    FROM ${database}.http3_response
    GROUP BY run, vantage, repetition, domain
) AS responded USING (run, vantage, repetition, domain)
LEFT JOIN
(
    SELECT
        run,
        domain,
        -- Without a status there was no answer with header fields.
        CAST(if(countIf(status IS NOT NULL) = 0, NULL, countIf(match(ifNull(alt_svc, ''), '(^|[ ,])h3=')) > 0), 'Nullable(Bool)') AS alt_svc_tcp_h3
    FROM ${database}.download_file
    GROUP BY run, domain
) AS crawled USING (run, domain)
