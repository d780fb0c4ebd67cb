"""Access to the operating system.

files, lock, path_names, open_files     files, locks, untrusted names of paths
children, lines, interrupt, noted_signals, memory, binaries     processes and programs
terminal, stdout, spreadsheet, from_outside     output, and untrusted text
network/        namespaces, listening sockets, metrics, the clock's offset
reporting/      how far a stage is
"""
