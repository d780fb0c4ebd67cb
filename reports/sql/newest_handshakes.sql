-- The newest run with handshakes: that began last, as of queries.
SELECT run
FROM ${database}.quic_handshake
GROUP BY run
ORDER BY min(sent_at) DESC NULLS LAST, run DESC
LIMIT 1
