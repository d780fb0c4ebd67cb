-- Table 1 of a run, by the paper's method and by outcome, with the counts of each highest share.
SELECT
    paper.cdn AS cdn,
    paper.domains AS domains,
    paper.iack_share_max AS iack_share_max,
    paper.variation AS variation,
    varied.variation_one_vantage AS variation_one_vantage,
    highest.instant AS instant,
    highest.counted AS counted,
    strict.domains AS strict_domains,
    strict.iack_share_max AS strict_iack_share_max,
    strict.variation AS strict_variation,
    strict.probes AS probes,
    strict.iack AS iack,
    strict.coalesced AS coalesced,
    strict.sh_first AS sh_first,
    strict.probes - strict.iack - strict.coalesced - strict.sh_first AS excluded
FROM ${database}.table1_by_run AS paper
INNER JOIN ${database}.table1_strict_by_run AS strict ON strict.run = paper.run AND strict.cdn = paper.cdn
LEFT JOIN
(
    SELECT cdn, argMax(share.instant, iack_share) AS instant, argMax(share.counted, iack_share) AS counted
    FROM ${database}.iack_by_cdn AS share
    WHERE run = {run:String}
    GROUP BY cdn
) AS highest ON highest.cdn = paper.cdn
LEFT JOIN
(
    SELECT cdn, max(variation) AS variation_one_vantage
    FROM
    (
        SELECT cdn, vantage, max(iack_share) - min(iack_share) AS variation
        FROM ${database}.iack_by_cdn
        WHERE run = {run:String}
        GROUP BY cdn, vantage
    )
    GROUP BY cdn
) AS varied ON varied.cdn = paper.cdn
WHERE paper.run = {run:String} AND strict.run = {run:String}
ORDER BY cdn = 'Others', cdn
