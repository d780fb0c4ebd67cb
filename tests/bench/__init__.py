"""Calculations, verdicts and result files of the benches, with invented measurements."""
