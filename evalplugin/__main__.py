"""``python -m evalplugin``."""

import sys

from evalplugin.cli import main

if __name__ == "__main__":
    sys.exit(main())
