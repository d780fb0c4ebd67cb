"""Campaigns: costs of each stage, and costs of larger campaigns calculated from them."""
