"""Tests; a package, because an installed one may have the same name."""
