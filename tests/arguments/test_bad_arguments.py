"""No argument of the public surface is taken for what it is not: each bad one is named.

The calls are made in processes of their own, where nothing but genclf looks at the arguments.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arguments import attack, attack_tools
from tests.processes import run

NAMES = [name for name, *_ in attack.calls()]
SHARES = [NAMES[i::3] for i in range(3)]


@pytest.mark.slow
@pytest.mark.parametrize("names", SHARES, ids=["first", "second", "third"])
def test_every_bad_argument_is_named(names):
    done = subprocess.run(
        [sys.executable, "-m", "tests.arguments.attack", *names],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    *complaints, number = done.stdout.splitlines()
    assert complaints == []
    assert int(number.split()[0]) > 400


def test_every_function_is_attacked():
    assert attack.not_attacked() == []


@pytest.fixture(scope="module")
def outcomes():
    program = (
        "import json, warnings; warnings.simplefilter('error');"
        "from tests.arguments import attack_tools as t;"
        "print(json.dumps([[case, t.outcome(*case)] for case in t.cases()]))"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr
    return {tuple(case): found for case, found in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.slow(
    "text.Vocabulary.counts", "text.learn_vocabulary", "text.Vocabulary", "text.Vocabulary.presence"
)
@pytest.mark.parametrize("name", attack_tools.RIGHT)
def test_what_is_wrong_is_named_and_what_is_not_is_taken(outcomes, name):
    asked = {case: found for case, found in outcomes.items() if case[0] == name}
    assert len(asked) >= len(attack_tools.bad_values())
    for (_, parameter, value), (kind, message, file) in asked.items():
        case = f"{parameter} = {value}: {kind} {message} {file}"
        if (parameter, value) in attack_tools.RIGHT[name]:
            assert kind == "", case
            continue
        assert kind == "ValueError", case
        assert "/genclf/" in file, case
        # The name of the argument comes first, or soon.
        assert parameter in message[:60], case


def test_all_calls_are_there(outcomes):
    assert {case[0] for case in outcomes} == attack_tools.RIGHT.keys()
