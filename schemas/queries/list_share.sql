WITH
    if({run:String} IN ('', 'newest'), (SELECT any(run) FROM ${database}.newest_run), {run:String}) AS of_run,
    if({list_id:String} = '',
        (SELECT any(list_id) FROM ${database}.target WHERE target.run = of_run),
        {list_id:String}) AS of_list,
    listed AS
    (
        SELECT domain, min(target.rank) AS rank, min(target.rank_bucket) AS rank_bucket
        FROM ${database}.target
        WHERE list_id = of_list
        GROUP BY domain
    ),
    answered AS
    (
        SELECT
            domain,
            true AS was_probed,
            countIf(ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false)) AS counted,
            countIf(ack_us IS NOT NULL AND sh_us IS NOT NULL AND ifNull(first_ack_range = 0, false)
                AND outcome != 'coalesced') AS instant,
            countIf(outcome IN ('iack', 'coalesced', 'sh_first')) AS answered,
            countIf(outcome = 'iack') AS iack
        FROM ${database}.quic_probe
        WHERE quic_probe.run = of_run
            AND ({vantage:String} = '' OR vantage = {vantage:String})
            AND ({cdn:String} = '' OR ifNull(cdn, '') = {cdn:String})
            AND ({all_addresses:Bool} OR (address_rank = 0 AND family = 4))
        GROUP BY domain
    )
SELECT
    of_list AS list_id,
    measure,
    top,
    count() AS names_listed,
    countIf(probed) AS names_probed,
    countIf(n_counted > 0) AS names_counted,
    sum(n_counted) AS counted,
    sum(n_instant) AS instant,
    if(counted = 0, NULL, instant / counted) AS iack_share,
    sum(n_answered) AS answered,
    sum(n_iack) AS iack,
    if(answered = 0, NULL, iack / answered) AS strict_share
FROM
(
    SELECT
        arrayJoin(arrayConcat(
            arrayMap(t -> ('rank', t), arrayFilter(t -> ifNull(listed.rank <= t, false), {tops:Array(UInt32)})),
            arrayMap(t -> ('bucket', t), arrayFilter(t -> ifNull(listed.rank_bucket <= t, false), {tops:Array(UInt32)}))
        )) AS position,
        position.1 AS measure,
        position.2 AS top,
        ifNull(answered.was_probed, false) AS probed,
        ifNull(answered.counted, 0) AS n_counted,
        ifNull(answered.instant, 0) AS n_instant,
        ifNull(answered.answered, 0) AS n_answered,
        ifNull(answered.iack, 0) AS n_iack
    FROM listed
    LEFT JOIN answered ON answered.domain = listed.domain
)
GROUP BY measure, top
ORDER BY measure DESC, top
