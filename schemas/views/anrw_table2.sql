SELECT
    run,
    `set`,
    versus,
    countIf(NOT is_limited) AS pairs,
    uniqExactIf(domain, NOT is_limited) AS domains,
    countIf(is_limited) AS limited,
    countIf(ratio > 1 AND NOT is_limited) / nullIf(pairs, 0) AS faster,
    countIf(ratio < 0.5 AND NOT is_limited) / nullIf(pairs, 0) AS below_05,
    countIf(ratio >= 0.5 AND ratio < 0.6 AND NOT is_limited) / nullIf(pairs, 0) AS from_05,
    countIf(ratio >= 0.6 AND ratio < 0.7 AND NOT is_limited) / nullIf(pairs, 0) AS from_06,
    countIf(ratio >= 0.7 AND ratio < 0.8 AND NOT is_limited) / nullIf(pairs, 0) AS from_07,
    countIf(ratio >= 0.8 AND ratio < 0.9 AND NOT is_limited) / nullIf(pairs, 0) AS from_08,
    countIf(ratio >= 0.9 AND ratio < 1.0 AND NOT is_limited) / nullIf(pairs, 0) AS from_09,
    countIf(ratio >= 1.0 AND ratio < 1.1 AND NOT is_limited) / nullIf(pairs, 0) AS from_10,
    countIf(ratio >= 1.1 AND ratio < 1.2 AND NOT is_limited) / nullIf(pairs, 0) AS from_11,
    countIf(ratio >= 1.2 AND ratio < 1.3 AND NOT is_limited) / nullIf(pairs, 0) AS from_12,
    countIf(ratio >= 1.3 AND ratio < 1.5 AND NOT is_limited) / nullIf(pairs, 0) AS from_13,
    countIf(ratio >= 1.5 AND ratio < 2.0 AND NOT is_limited) / nullIf(pairs, 0) AS from_15,
    countIf(ratio >= 2.0 AND NOT is_limited) / nullIf(pairs, 0) AS from_20
FROM
(
    ${download_pairs}
)
GROUP BY run, `set`, versus
