"""Tests. They are a package, because an installed package may have the same name."""
