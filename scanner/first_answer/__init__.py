"""The probe stage: records the first answer to a QUIC Initial."""
