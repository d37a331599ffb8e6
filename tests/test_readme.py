"""The README runs as written: every Python block, in order, in one fresh session."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

# A process of its own: a reader has JAX's defaults, the tests have stricter ones.
SESSION = """
import contextlib, io, json, sys
printed, names = [], {"__name__": "__main__"}
for block in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "README.md", "exec"), names)
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""


def blocks() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def promised(block: str) -> list[str]:
    return [line.removeprefix("# -> ") for line in block.splitlines() if line.startswith("# -> ")]


def agree(line: str, shown: str) -> bool:
    """Equal text; numbers with a decimal point within two units of the last digit shown."""
    if NUMBER.sub("#", line) != NUMBER.sub("#", shown):
        return False
    for got, want in zip(NUMBER.findall(line), NUMBER.findall(shown), strict=True):
        digits = len(want.partition(".")[2])
        tolerance = 2.1 * 10.0**-digits if digits else 0
        if abs(float(got) - float(want)) > tolerance:
            return False
    return True


@pytest.fixture(scope="module")
def outputs() -> list[list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        input=json.dumps(blocks()),
        capture_output=True,
        text=True,
        cwd=README.parent,
    )
    assert done.returncode == 0, done.stderr
    return [text.splitlines() for text in json.loads(done.stdout)]


def test_quickstart_prints_what_it_says(outputs):
    assert len(outputs) == len(blocks()) > 0
    for block, lines in zip(blocks(), outputs, strict=True):
        shown = promised(block)
        assert len(shown) == len(lines) > 0, f"printed {lines}\nREADME says {shown}"
        for line, want in zip(lines, shown, strict=True):
            assert agree(line, want), f"printed {line!r}, README says {want!r}"


def test_quickstart_shows_the_whole_surface():
    text = "".join(blocks())
    for verb in ("fit", "predict", "log_posterior", "sample", "merge", "validate", "Product"):
        assert f"gcf.{verb}(" in text, verb
    assert "jax.vmap" in text and "grad(" in text


def test_comparison_can_fail():
    assert agree("a 0.973 (2,)", "a 0.975 (2,)")
    assert not agree("a 0.972 (2,)", "a 0.975 (2,)")
    assert not agree("a 0.975 (3,)", "a 0.975 (2,)")
    assert not agree("b 0.975 (2,)", "a 0.975 (2,)")


def test_links_resolve():
    for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8")):
        assert (README.parent / target).exists(), target


def test_every_model_is_in_the_table():
    import genclf.presets
    from genclf.families.base import Family

    table = README.read_text("utf-8").partition("## Models")[2].partition("## Conventions")[0]
    presets = [n for n in vars(genclf.presets) if n == "lda" or n == "qda" or n.endswith("_nb")]
    families = [
        name
        for name in genclf.__all__
        if isinstance(getattr(genclf, name), type) and issubclass(getattr(genclf, name), Family)
    ]
    assert len(presets) == 6 and len(families) >= 6
    for name in presets:
        assert f"`{name}`" in table, name
    for name in families:
        assert f"`{name}(" in table, name
