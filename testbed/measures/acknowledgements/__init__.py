"""Parts of the measures of acknowledgements (paper 003)."""
