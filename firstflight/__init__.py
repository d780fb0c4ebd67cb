"""What all parts share: settings, runs and their reports, egress policy, access to the system."""
