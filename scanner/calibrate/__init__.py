"""The calibrate stage: a probe and a handshake with the same address, shortly after each other."""
