"""Pauses probing of an AS whose timeout or Retry rate rises."""
