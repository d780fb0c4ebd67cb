"""The expected results of measurements in the lab, which follow from its declarations."""
