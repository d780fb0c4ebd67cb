"""Parts of several commands: options, tables, names of runs, native programs."""
