"""Who opts out at the centre is left alone at every vantage point; unconfirmed lists end all sending."""
