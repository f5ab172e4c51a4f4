"""Small helpers that every part may use: rows of anything, parameters, notes, progress, devices, diagrams."""
