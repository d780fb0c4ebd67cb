WITH
-- Use each certificate once, because it is stored per vantage point and repetition.
described AS
(
    SELECT
        sha256,
        toNullable(max(toString(key_algorithm))) AS kind,
        toNullable(max(key_bits)) AS bits,
        toNullable(max(toString(signature_algorithm))) AS signed_by,
        toNullable(max(der_bytes)) AS size
    FROM ${database}.certificate
    WHERE ${of_run_with quic_handshake}
    GROUP BY sha256
),
of_leaves AS
(
    SELECT
        coalesce(CAST(quic_handshake.cdn AS Nullable(String)), 'Others') AS cdn,
        assumeNotNull(leaf_sha256) AS leaf,
        count() AS times
    FROM ${database}.quic_handshake
    WHERE leaf_sha256 IS NOT NULL AND outcome = 'done'
        AND ${of_run_with quic_handshake}
        AND ({vantage:String} = '' OR vantage = {vantage:String})
        AND ({cdn:String} = '' OR cdn = {cdn:String})
        AND day BETWEEN {since:Date} AND {until:Date}
    GROUP BY cdn, leaf
)
SELECT
    cdn,
    described.kind AS key_algorithm,
    described.bits AS key_bits,
    described.signed_by AS signature_algorithm,
    count() AS leaves,
    sum(times) AS handshakes,
    leaves / sum(leaves) OVER (PARTITION BY cdn) AS share_of_leaves,
    handshakes / sum(handshakes) OVER (PARTITION BY cdn) AS share_of_handshakes,
    quantileExact(0.5)(described.size) AS der_bytes_p50
FROM of_leaves
LEFT JOIN described ON of_leaves.leaf = described.sha256
GROUP BY cdn, key_algorithm, key_bits, signature_algorithm
ORDER BY cdn = 'Others', cdn, handshakes DESC, key_algorithm, key_bits, signature_algorithm
LIMIT {limit:UInt32}
