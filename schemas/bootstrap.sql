-- What stands before the first migration: the database, and the book of what was applied to it.
CREATE DATABASE IF NOT EXISTS ${database} ${on_cluster};

CREATE TABLE IF NOT EXISTS ${database}.schema_migration ${on_cluster}
(
    part Enum8('migration' = 1, 'view' = 2, 'comment' = 3),
    name String,
    sha256 String,
    applied_at DateTime64(9, 'UTC')
)
ENGINE = ${replicated}MergeTree
ORDER BY (part, name, applied_at);
