SELECT
    cdn,
    uniqExactIf(domain, method = 'asn' AND domain != '') AS names_by_asn,
    uniqExactIf(domain, method = 'cname' AND domain != '') AS names_by_cname,
    uniqExactIf(domain, method = 'header' AND domain != '') AS names_by_header,
    uniqExactIf(domain, method = 'certificate' AND domain != '') AS names_by_certificate,
    countIf(method = 'asn') / nullIf(sum(countIf(method = 'asn')) OVER (), 0) AS share_by_asn,
    countIf(method = 'cname') / nullIf(sum(countIf(method = 'cname')) OVER (), 0) AS share_by_cname,
    countIf(method = 'header') / nullIf(sum(countIf(method = 'header')) OVER (), 0) AS share_by_header,
    countIf(method = 'certificate') / nullIf(sum(countIf(method = 'certificate')) OVER (), 0) AS share_by_certificate
FROM
(
    SELECT domain, each.1 AS method, assumeNotNull(each.2) AS cdn
    FROM
    (
        SELECT
            domain,
            arrayJoin([('asn', by_asn), ('cname', by_cname), ('header', by_header), ('certificate', by_certificate)]) AS each
        FROM ${database}.handshake_cdn
        WHERE ${cdn_asked}
    )
    WHERE each.2 IS NOT NULL
)
GROUP BY cdn
ORDER BY cdn = 'Others', names_by_asn + names_by_cname + names_by_header + names_by_certificate DESC, cdn
