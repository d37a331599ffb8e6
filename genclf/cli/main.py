"""The command line: `python -m genclf` and `python -m genclf compare FILE --label COLUMN`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec

from genclf.tables.kinds import KINDS

_DESCRIPTION = """\
Generative classifiers on JAX. Without a command: fits the models to the data
that ships with the library, and prints what they found.
"""
_EPILOG = """\
examples:
  python -m genclf                                   the models on the shipped data
  python -m genclf compare iris.csv --label species  the models on a file of yours
  python -m genclf compare iris.csv --label species --html iris.html
"""
_COMPARE = """\
Reads the type of each column, fits every model that applies, and prints the cross-validated
log-loss and accuracy of each, best first.
"""
_EXTRA = ("narwhals", "pandas", "rich", "sklearn")
_OF_PAGE = ("jinja2", "matplotlib")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code, which is 2 for a user error."""
    args = _parser().parse_args(argv)
    needed = _EXTRA + (_OF_PAGE if getattr(args, "html", None) else ())
    if missing := [name for name in needed if find_spec(name) is None]:
        return _fail(f'the command line needs {", ".join(missing)}: pip install "genclf[cli]"')
    from genclf.cli.compare import print_comparison
    from genclf.cli.demo import demo
    from genclf.cli.files import InputError

    try:
        if args.command == "compare":
            print_comparison(args)
        else:
            demo()
    except InputError as error:
        return _fail(str(error))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m genclf",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"genclf {version('genclf')}")
    commands = parser.add_subparsers(dest="command", title="commands", metavar="COMMAND")
    compare = commands.add_parser(
        "compare", help="compare all models that apply to a file", description=_COMPARE
    )
    compare.add_argument("file", metavar="FILE", help="a CSV, TSV, ARFF, Parquet or Feather file")
    compare.add_argument("--label", metavar="COLUMN", required=True, help="the column to predict")
    compare.add_argument(
        "--drop", metavar="COLUMN", action="append", default=[], help="leave a column out"
    )
    compare.add_argument(
        "--kind",
        metavar="COLUMN=KIND",
        type=_kind,
        action="append",
        default=[],
        help=f"how a column is read: {', '.join(KINDS)}",
    )
    compare.add_argument("--weights", metavar="COLUMN", help="the column of weights of the rows")
    compare.add_argument(
        "--missing",
        choices=("ignore", "value"),
        default="ignore",
        help="whether a missing category is ignored, or a value (ignore)",
    )
    compare.add_argument(
        "--holes",
        metavar="SPELLINGS",
        type=lambda text: text.split(","),
        help="spellings of a missing cell in CSV (?,NA,N/A,NaN,nan,null; an empty cell always is)",
    )
    compare.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="the first line is a row; columns are named 1, 2, 3 and so on",
    )
    compare.add_argument("--folds", type=_folds, default=10, help="number of folds (10)")
    compare.add_argument("--seed", type=_seed, default=0, help="seed of the shuffle (0)")
    compare.add_argument(
        "--sep",
        type=_separator,
        help=r"separator of CSV (found out if not given); '\t' is a tab",
    )
    compare.add_argument("--html", metavar="PAGE", help="also write an HTML page, with figures")
    return parser


def _kind(text: str) -> tuple[str, str]:
    name, equals, kind = text.rpartition("=")
    if not equals or kind not in KINDS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not COLUMN=KIND with a kind of {', '.join(KINDS)}"
        )
    return name, kind


def _folds(text: str) -> int:
    if not text.isdecimal() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 2")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number in 0..2^32-1")
    return int(text)


def _separator(text: str) -> str:
    text = text.replace("\\t", "\t")
    if len(text) != 1 or not text.isascii() or text in '"\n\r\0':
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a single ASCII character other than a quote and the end of a line"
        )
    return text


def _fail(message: str) -> int:
    print(f"genclf: error: {message}", file=sys.stderr)
    return 2
