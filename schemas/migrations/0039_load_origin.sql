-- Who may replace the rows of a unit. Entries of older versions have an empty origin.
ALTER TABLE ${database}.load_file ${on_cluster}
    ADD COLUMN IF NOT EXISTS origin String AFTER sha256;
