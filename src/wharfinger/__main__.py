"""``python -m wharfinger``: the same as the ``wharfinger`` command."""

import sys

from wharfinger.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
