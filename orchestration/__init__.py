"""Runs stages: as a campaign on this machine, or on a schedule with Airflow."""
