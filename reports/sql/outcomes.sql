-- All probes of the first IPv4 address of each name, by CDN and outcome.
SELECT
    cdn, probes, iack, coalesced, sh_first, closed, ack_only, retry, version_negotiation, refused, malformed,
    timeout, send_failed, blocked
FROM ${database}.table1_strict_by_run
WHERE run = {run:String}
ORDER BY cdn = 'Others', cdn
