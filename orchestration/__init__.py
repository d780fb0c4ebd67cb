"""Runs stages: as a campaign on this machine, or on a schedule with Airflow.

stages      the table of stages
runner      a stage as a child process
stage_input a stage that another command started
execute     skips completed stages and runs the others
checks/     checks on a machine before it measures
local/      campaign, lifecycle, console, manifest
airflow/    operators, plugin, worker
site/       vantage points, inputs from the centre, pending uploads
"""
