"""Small helpers for all parts: rows of any data, parameters, notes, progress, devices, diagrams."""
