-- A probe with any QUIC packet in answer. A malformed answer may not be QUIC, unless one of its packets authenticated.
(outcome NOT IN ('blocked', 'send_failed', 'timeout', 'refused') AND (outcome != 'malformed' OR server_cid IS NOT NULL))
