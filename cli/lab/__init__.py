"""The commands that try measurements in the lab and in the testbed."""
