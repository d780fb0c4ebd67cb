"""Campaigns on a schedule: what the DAG files call, at the centre and at the vantage points.

Light on imports, because every DAG file is parsed again and again: nothing here imports Arrow, an HTTP
client or the store before a task runs. Only `operators` and `plugin` import Airflow.
"""
