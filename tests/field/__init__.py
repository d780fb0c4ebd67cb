"""Cases from the field: inputs that came out wrong once, with the expected value and its source."""
