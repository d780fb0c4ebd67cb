"""Cases from the field: inputs that once gave wrong results, with the expected value and its source."""
