"""Run the command: `python -m sklearn_uhc`."""

import sys

from sklearn_uhc.command import main

if __name__ == "__main__":
    sys.exit(main())
