-- Pairs of successful downloads of a file by two sets, within a run of downloads, and the ratio of their throughputs.
-- If the names were drawn by a survey, pairs of TCP sets are from the TCP target set, and pairs with a QUIC stack from the
-- QUIC target set, as in the two parts of the paper's Table 2.
SELECT
    run,
    domain,
    one.set AS `set`,
    other.set AS versus,
    one.anrw_throughput_bps / other.anrw_throughput_bps AS ratio,
    coalesce(one.client_limited, false) OR coalesce(other.client_limited, false) AS is_limited
FROM
(
    SELECT run, vantage, repetition, domain, ip, url, `set`, body_bytes, anrw_throughput_bps, client_limited, protocol,
        target_set
    FROM ${database}.download
    WHERE outcome IN ('done', 'stopped_limit') AND anrw_throughput_bps > 0
) AS one
INNER JOIN
(
    SELECT run, vantage, repetition, domain, ip, url, `set`, body_bytes, anrw_throughput_bps, client_limited, protocol
    FROM ${database}.download
    WHERE outcome IN ('done', 'stopped_limit') AND anrw_throughput_bps > 0
) AS other USING (run, vantage, repetition, domain, ip, url, body_bytes)
WHERE one.set != other.set
    AND (one.target_set IS NULL OR one.target_set = 'both'
        OR one.target_set = if(one.protocol = 'quic' OR other.protocol = 'quic', 'quic', 'tcp'))
