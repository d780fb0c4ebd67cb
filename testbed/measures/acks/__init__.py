"""Experiments about acknowledgements (paper 003): cells, a model beside them, what they show."""
