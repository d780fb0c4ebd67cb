"""Stages and the processes that run them, without Airflow."""
