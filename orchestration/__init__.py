"""Runs stages: as a campaign on this machine, or on a schedule under Airflow."""
