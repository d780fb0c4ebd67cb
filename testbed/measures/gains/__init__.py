"""Parts of the measures that judge a gain of instant ACK (paper 000)."""
