"""A campaign: what it will do (plan), its doing (conduct, process), what is kept and shown of it."""
