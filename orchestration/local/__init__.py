"""A campaign on this machine: order of stages, life cycle, terminal output, manifest."""
