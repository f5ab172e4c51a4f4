"""The command `sklearn-uhc`: inspect, merge, predict and pack from a shell, thin over the public API.

Nobody imports it. May import the public names of the package, and all rooms.
"""

from sklearn_uhc.command.main import main

__all__ = ["main"]
