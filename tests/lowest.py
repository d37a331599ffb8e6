"""Prints what `make test-lowest` installs: the oldest versions that `pyproject.toml` allows.

One requirement a line: of the library, of the extras of its users, and of what runs tests.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Those of the makers of the library. Of spark, whose tests need Java, all but it is in others.
NOT_OF_USERS = ("bench", "docs", "scale", "spark", "test")
RUNNERS = ("beartype", "chex", "hypothesis", "polars", "pytest", "pytest-xdist")
REQUIREMENT = re.compile(r"([\w.-]+)(\[[\w,]+\])?>=([\w.]+)")


def requirements() -> Iterator[str]:
    """As `pyproject.toml` writes them."""
    yield from PROJECT["dependencies"]
    for name in EXTRAS.keys() - {*NOT_OF_USERS}:
        yield from EXTRAS[name]
    yield from (line for line in EXTRAS["test"] if line.partition(">=")[0] in RUNNERS)


def lowest() -> list[str]:
    """Each package at its lower bound."""
    found = set()
    for requirement in requirements():
        if requirement.startswith(f"{PROJECT['name']}["):
            continue  # those extras are listed themselves
        bounded = REQUIREMENT.match(requirement)
        if bounded is None:
            raise ValueError(f"{requirement} has no lower bound, expected one as in numpy>=2.0")
        package, extras, version = bounded.groups()
        found.add(f"{package}{extras or ''}=={version}")
    return sorted(found)


if __name__ == "__main__":
    print(*lowest(), sep="\n")
