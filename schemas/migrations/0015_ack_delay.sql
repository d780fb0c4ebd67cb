-- A delay of 62 bits times eight does not fit: such a value is not known, instead of what is left of it.
ALTER TABLE ${database}.quic_probe ${on_cluster}
    MODIFY COLUMN ack_delay_us Nullable(Int64)
        ALIAS if(ack_delay_raw < 1152921504606846976, ack_delay_raw * 8, NULL);
