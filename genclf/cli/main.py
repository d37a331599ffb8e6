"""The command line: `python -m genclf`, and its commands `compare` and `predict`."""

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
  python -m genclf compare iris.csv --label species --html iris.html --save iris.genclf
  python -m genclf predict iris.genclf more.csv --output classes.csv
"""
_COMPARE = """\
Reads the type of each column, fits every model that applies, and prints the cross-validated
log-loss and accuracy of each, best first.
"""
_PREDICT = """\
Writes the rows of a file as CSV, with the class that a saved model predicts, p(class | row), and,
if the model has them, p-values that the row is of each class. The classes whose p-value is above
alpha are the set of the row; an empty set says that the row is typical of none of them.
"""
_EXTRA = ("narwhals", "pandas", "rich", "sklearn")
_OF_PAGE = ("jinja2", "matplotlib")
_OF_FILES = ("safetensors",)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit code, which is 2 for a user error."""
    args = _parser().parse_args(argv)
    has_file = args.command == "predict" or getattr(args, "save", None)
    needed = _EXTRA + (_OF_PAGE if getattr(args, "html", None) else ())
    needed += _OF_FILES if has_file else ()
    if missing := [name for name in needed if find_spec(name) is None]:
        extras = "cli,files" if has_file else "cli"
        names = ", ".join(missing)
        return _fail(f'the command line needs {names}: pip install "genclf[{extras}]"')
    from genclf.cli.compare import print_comparison
    from genclf.cli.demo import demo
    from genclf.cli.files import InputError, check_outputs

    try:
        check_outputs(args)
        if args.command == "compare":
            print_comparison(args)
        elif args.command == "predict":
            from genclf.cli.predict import write_predictions

            write_predictions(args)
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
    compare.add_argument("--folds", type=_folds, default=10, help="number of folds (10)")
    compare.add_argument("--seed", type=_seed, default=0, help="seed of the shuffle (0)")
    _add_reading(compare)
    compare.add_argument("--html", metavar="PAGE", help="also write an HTML page, with figures")
    compare.add_argument("--save", metavar="MODEL", help="also write the best model, for predict")
    predict = commands.add_parser(
        "predict", help="predict the rows of a file by a saved model", description=_PREDICT
    )
    predict.add_argument("model", metavar="MODEL", help="a file of compare --save or genclf.save")
    predict.add_argument("file", metavar="FILE", help="the rows, in a file as for compare")
    predict.add_argument("--output", metavar="CSV", help="the file to write (standard output)")
    predict.add_argument(
        "--alpha", type=_share, default=0.05, help="share of rows whose set lacks their class (.05)"
    )
    _add_reading(predict)
    return parser


def _add_reading(parser: argparse.ArgumentParser) -> None:
    """How a file of CSV is read."""
    parser.add_argument(
        "--holes",
        metavar="SPELLINGS",
        type=lambda text: text.split(","),
        help="spellings of a missing cell in CSV (?,NA,N/A,NaN,nan,null; an empty cell always is)",
    )
    parser.add_argument(
        "--no-header",
        dest="header",
        action="store_false",
        help="the first line is a row; columns are named 1, 2, 3 and so on",
    )
    parser.add_argument(
        "--sep", type=_separator, help=r"separator of CSV (found out if not given); '\t' is a tab"
    )


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return found


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
