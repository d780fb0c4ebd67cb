-- Referrals, which were NODATA, and how many records of an answer have no row. Rows of older versions do not have the
-- column, and have a row for each record.
ALTER TABLE ${database}.dns_answer ${on_cluster}
    MODIFY COLUMN status Enum8('NOERROR' = 1, 'NODATA' = 2, 'NXDOMAIN' = 3, 'SERVFAIL' = 4, 'REFUSED' = 5, 'FORMERR' = 6,
        'NOTIMP' = 7, 'OTHER' = 8, 'TIMEOUT' = 9, 'NETWORK' = 10, 'MALFORMED' = 11, 'CHAIN' = 12, 'REFERRAL' = 13),
    ADD COLUMN IF NOT EXISTS records_left_out Nullable(UInt16) AFTER data;
