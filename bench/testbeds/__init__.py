"""The testbed and the lab: cost of simulated time, and accuracy of times."""
