-- Whether the known methods indicate the same CDN; null if fewer than two are known.
multiIf(
        length(arrayFilter(each -> each IS NOT NULL, [by_asn, by_cname, by_header, by_certificate])) < 2, NULL,
        arrayUniq(arrayFilter(each -> each IS NOT NULL, [by_asn, by_cname, by_header, by_certificate])) = 1, 'same',
        arrayUniq(arrayFilter(each -> each IS NOT NULL AND each != 'Others', [by_asn, by_cname, by_header, by_certificate])) = 1, 'partly',
        'different'
    )
