"""Compares the dissector's rows with tshark's fields, field by field."""
