"""The calibrate stage: a probe and a handshake with the same address, soon after each other."""
