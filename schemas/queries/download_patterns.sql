-- For each two sets, the number of names with equal numbers of pairs and of pairs in which the first set was faster.
SELECT `set`, versus, faster, pairs, count() AS names
FROM
(
    SELECT `set`, versus, domain, countIf(ratio > 1) AS faster, count() AS pairs
    FROM
    (
        ${download_pairs}
    )
    WHERE run = {run:String} AND NOT is_limited
    GROUP BY `set`, versus, domain
)
GROUP BY `set`, versus, faster, pairs
ORDER BY versus, `set`, pairs, faster
