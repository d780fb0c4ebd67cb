"""Experiments: cells, varied fields, published values and expectations."""
