"""A campaign: what it will do (plan), its doing (life, conduct, process), what is kept and shown of it."""
