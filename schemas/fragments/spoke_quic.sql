-- A probe that received a QUIC packet. A malformed answer may not be QUIC, unless a packet in it was authenticated.
(outcome NOT IN ('blocked', 'send_failed', 'timeout', 'refused') AND (outcome != 'malformed' OR server_cid IS NOT NULL))
