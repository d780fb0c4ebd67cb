-- A probe that any packet of QUIC answered. What is malformed may be of nobody who speaks QUIC, unless a packet of it authenticated.
(outcome NOT IN ('blocked', 'send_failed', 'timeout', 'refused') AND (outcome != 'malformed' OR server_cid IS NOT NULL))
