SELECT
    source,
    arrayJoin(if(pairs_of.cdn IS NULL, [CAST(NULL, 'Nullable(String)')], [pairs_of.cdn, NULL])) AS cdn,
    probe,
    handshake,
    count() AS pairs,
    countIf(state = 'compared') AS compared
FROM
(
    ${calibration_pairs}
) AS pairs_of
GROUP BY source, cdn, probe, handshake
ORDER BY source, cdn IS NOT NULL, cdn = 'Others', cdn, pairs DESC, probe, handshake
