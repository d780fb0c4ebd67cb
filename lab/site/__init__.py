"""A site on one machine: Airflow's central services, the store and four Edge workers, in the lab."""
