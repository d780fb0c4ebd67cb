-- Privileges of the roles of Airflow's database. Each play runs this file.
REVOKE ALL ON DATABASE airflow FROM PUBLIC;
-- A backup is restored into a scratch database as a test.
GRANT CONNECT ON DATABASE airflow TO "firstflight-backup";
GRANT pg_read_all_data TO "firstflight-backup";
ALTER ROLE "firstflight-backup" CREATEDB;
-- The size of the database, and the number of connections.
GRANT CONNECT ON DATABASE airflow TO "firstflight-site-metrics";
-- In earlier releases, the owner ran the backups.
ALTER ROLE firstflight NOCREATEDB;
