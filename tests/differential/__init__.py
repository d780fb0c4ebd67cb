"""Our reading of captures against tshark's, field by field."""
