-- What the roles of Airflow's database may do; each play runs it.
REVOKE ALL ON DATABASE airflow FROM PUBLIC;
-- A backup is restored into a scratch database as a test.
GRANT CONNECT ON DATABASE airflow TO "firstflight-backup";
GRANT pg_read_all_data TO "firstflight-backup";
ALTER ROLE "firstflight-backup" CREATEDB;
-- The size of the database, and the number of connections.
GRANT CONNECT ON DATABASE airflow TO "firstflight-site-metrics";
-- Releases before had backups run by the owner.
ALTER ROLE firstflight NOCREATEDB;
