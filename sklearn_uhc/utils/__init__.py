"""Small helpers for all rooms: rows of any data, parameters, warnings, threads, torch's device.

They know nothing of teachers or merges, and import no other room.
"""
