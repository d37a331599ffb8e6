"""`python -m genclf`; the commands are in `cli.main`."""

import sys

from genclf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
