SELECT
    source,
    arrayJoin(if(pairs_of.cdn IS NULL, [CAST(NULL, 'Nullable(String)')], [pairs_of.cdn, NULL])) AS cdn,
    count() AS pairs,
    countIf(state = 'not_sent') AS not_sent,
    countIf(state = 'both_failed') AS both_failed,
    countIf(state = 'probe_failed') AS probe_failed,
    countIf(state = 'handshake_failed') AS handshake_failed,
    countIf(state = 'repeated') AS repeated,
    countIf(state = 'apart') AS apart,
    countIf(state = 'compared') AS compared,
    countIf(state = 'compared' AND probe = 'iack' AND handshake = 'iack') AS both_instant,
    countIf(state = 'compared' AND probe = 'iack' AND handshake != 'iack') AS probe_only,
    countIf(state = 'compared' AND probe != 'iack' AND handshake = 'iack') AS handshake_only,
    countIf(state = 'compared' AND probe != 'iack' AND handshake != 'iack') AS neither,
    quantileExactInclusiveOrNullIf(0.5)(apart_s, state = 'compared') AS apart_p50_s
FROM
(
    ${calibration_pairs}
) AS pairs_of
GROUP BY source, cdn
ORDER BY source, cdn IS NOT NULL, cdn = 'Others', cdn
