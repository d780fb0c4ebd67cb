"""Numbers beside the tables: confidence intervals, RFC 9002, the truth of the lab."""
