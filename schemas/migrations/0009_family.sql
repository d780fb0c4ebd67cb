-- Nearly every question is about IPv4 alone; to see that by the address's text costs more than all else that it reads.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    ADD COLUMN IF NOT EXISTS family UInt8 DEFAULT if(isIPv4String(ip), 4, 6) AFTER day;

ALTER TABLE ${database}.quic_probe ${on_cluster} MATERIALIZE COLUMN family;
