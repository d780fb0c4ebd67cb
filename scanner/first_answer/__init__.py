"""The probe stage: the first answer to a QUIC Initial."""
