"""Operators, plugin and worker: everything that imports Airflow.

Airflow parses every DAG file repeatedly, so imports are few: nothing here imports Arrow, an HTTP client or
the store before a task runs.
"""
