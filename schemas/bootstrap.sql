-- Created before the first migration: the database, the log of applied migrations, and leases. A lease keeps other
-- programs on a server from working on the same subject: the server drops a repeated insert of a version, because it
-- has the same token.
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

CREATE TABLE IF NOT EXISTS ${database}.lease ${on_cluster}
(
    subject String,
    version UInt64,
    holder String,
    ends_at DateTime64(9, 'UTC')
)
ENGINE = ${replicated}ReplacingMergeTree(version)
ORDER BY subject
SETTINGS non_replicated_deduplication_window = 10000;
