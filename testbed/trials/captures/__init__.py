"""The captures of trials: whether they are whole, and what they show."""
