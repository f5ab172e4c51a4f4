"""Measurements and the demo. They use the public API only."""
