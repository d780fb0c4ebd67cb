"""Operators, plugin and worker: everything that imports Airflow.

Light on imports, because every DAG file is parsed again and again: nothing here imports Arrow, an HTTP client
or the store before a task runs.
"""
