"""The tcp_options stage: which TCP options servers agree to."""
