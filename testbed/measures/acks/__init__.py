"""Experiments about acknowledgements (paper 003): cells, the model, and results."""
