"""The command line: the only package that imports every part of firstflight.

main        finds the subcommand; `firstflight --help` lists a folder's commands as one group
measure/    "Measure": probes, handshakes, names, crawls, downloads
look/       "Look at results": reports, queries, packets
run/        "Run a campaign": campaigns, their stages, checks of the machine
store/      "Manage a store"
site/       "Operate a site"
lab/        "Try it in the lab"
engines/    what commands that start an engine share
shared/     what other commands share: options, tables, names of runs
"""
