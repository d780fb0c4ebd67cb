-- The newest run with handshakes.
SELECT run
FROM ${database}.quic_handshake
GROUP BY run
ORDER BY max(sent_at) DESC NULLS LAST, run DESC
LIMIT 1
