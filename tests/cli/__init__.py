"""The command line: arguments, errors, tables on a terminal, `doctor` and prompts."""
