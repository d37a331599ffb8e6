"""Every argument of the tools beside the models, given what it is not: an answer or a clear error.

The calls are made in a process of their own, where nothing but genclf looks at the arguments.
"""

import inspect
import json
import subprocess
import sys
import traceback

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import genclf.datasets
import genclf.discretize
import genclf.text
from genclf.arguments.texts import check_frequency

TEXTS = ["free prize, free entry", "are you free", "you are in"]


def good_calls():
    """Each public function and method, with arguments that are right; no JAX before it is asked."""
    import jax

    text, discretize, datasets = genclf.text, genclf.discretize, genclf.datasets
    known = text.learn_vocabulary(TEXTS)
    encode = {"texts": TEXTS}
    calls = {
        "text.learn_vocabulary": (text.learn_vocabulary, encode),
        "text.Vocabulary": (text.Vocabulary, {"words": ("are", "you")}),
        "discretize.codes": (discretize.codes, {"x": [[1.0], [2.0]], "edges": [1.5]}),
        "discretize.quantile_edges": (discretize.quantile_edges, {"x": [1, 2, 3], "num_bins": 2}),
        "datasets.sample_waveform": (datasets.sample_waveform, {"key": jax.random.key(0)}),
        "datasets.waveform_log_joint": (datasets.waveform_log_joint, {"x": np.ones((2, 21))}),
    }
    methods = inspect.getmembers(text.Vocabulary, inspect.isfunction)
    for name in (name for name, _ in methods if not name.startswith("_")):
        calls[f"text.Vocabulary.{name}"] = (getattr(known, name), encode)
    for module in (text, discretize, datasets):
        for name in module.__all__:
            found = getattr(module, name)
            # Those without a parameter, as the loaders, have nothing to be given wrongly.
            takes = inspect.isfunction(found) and inspect.signature(found).parameters
            assert not takes or f"{module.__name__.split('.')[-1]}.{name}" in calls, name
    return calls


def bad_values():
    rows = np.arange(6.0).reshape(3, 2)
    return {
        "None": None,
        "string": "nonsense",
        "bytes": b"nonsense",
        "list": [1, 2],
        "ragged": [[1.0], [2.0, 3.0]],
        "dict": {"a": 1},
        "complex": 1 + 2j,
        "complex array": np.array([1 + 2j, 3]),
        "no rank": np.array(2.5),
        "rank 4": np.ones((2, 3, 5, 7)),
        "empty": np.ones((0, 3)),
        "nan": float("nan"),
        "inf": float("inf"),
        "nan array": np.array([np.nan, 1.0]),
        "negative": -1,
        "fraction": 2.5,
        "true": True,
        "objects": np.array([None, object()], dtype=object),
        "sparse": scipy.sparse.csr_matrix(rows),
        "masked": np.ma.array(rows, mask=rows > 2),
        "masked vector": np.ma.array([1, 2, 3], mask=[0, 1, 0]),
        "frame": pd.DataFrame({"are": [1.0, 2.0], "you": [3.0, 4.0]}),
        "series of str": pd.Series(["are", "you"]),
        "dates": np.array(["2024-01-01"], dtype="datetime64[D]"),
        "function": len,
        "type": dict,
    }


def cases():
    """Name of the call, of the parameter, and of the value."""
    calls = good_calls()
    return [
        (name, parameter, value)
        for name, (call, _) in calls.items()
        for parameter in inspect.signature(call).parameters
        for value in bad_values()
    ]


def outcome(name, parameter, value):
    """[type, message, file of the last frame] of what is raised; else the type and the text."""
    call, arguments = good_calls()[name]
    try:
        found = call(**arguments | {parameter: bad_values()[value]})
    except Exception as error:
        file = traceback.extract_tb(error.__traceback__)[-1].filename
        return [type(error).__name__, str(error), file]
    return ["", repr(found), ""]


@pytest.fixture(scope="module")
def outcomes():
    program = (
        "import sys, json, warnings; sys.path.insert(0, 'tests/arguments');"
        "warnings.simplefilter('error');"
        "import test_module_arguments as t;"
        "print(json.dumps([[case, t.outcome(*case)] for case in t.cases()]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {tuple(case): found for case, found in json.loads(done.stdout.splitlines()[-1])}


# What is not refused, since it is right.
RIGHT = {
    "text.learn_vocabulary": {
        ("texts", "series of str"),
        *(("stop_words", value) for value in ("None", "series of str")),
        ("max_words", "None"),
        *((name, "true") for name in ("lowercase", "unknown")),
    },
    "text.Vocabulary": {
        ("words", "series of str"),
        ("stop_words", "series of str"),
        ("lowercase", "true"),
    },
    "text.Vocabulary.counts": {("texts", "series of str"), ("dtype", "None")},
    "text.Vocabulary.presence": {("texts", "series of str"), ("dtype", "None")},
    "text.Vocabulary.token_ids": {("texts", "series of str"), ("max_length", "None")},
    "text.Vocabulary.tokens": {("texts", "series of str"), ("max_length", "None")},
    "discretize.codes": {
        *(("x", v) for v in ("list", "no rank", "rank 4", "empty", "nan", "inf", "nan array")),
        *(("x", v) for v in ("negative", "fraction", "true", "frame")),
        *(("edges", v) for v in ("list",)),
    },
    "discretize.quantile_edges": {
        *(("x", v) for v in ("list", "frame")),
        ("weights", "None"),
    },
    "datasets.sample_waveform": {("shape", "list")},
    "datasets.waveform_log_joint": set(),
}


@pytest.mark.slow("text.Vocabulary.counts", "text.learn_vocabulary")
@pytest.mark.parametrize("name", RIGHT)
def test_what_is_wrong_is_named_and_what_is_not_is_taken(outcomes, name):
    asked = {case: found for case, found in outcomes.items() if case[0] == name}
    assert len(asked) >= len(bad_values())
    for (_, parameter, value), (kind, message, file) in asked.items():
        case = f"{parameter} = {value}: {kind} {message} {file}"
        if (parameter, value) in RIGHT[name]:
            assert kind == "", case
            continue
        assert kind == "ValueError", case
        assert "/genclf/" in file, case
        # The name of the argument comes first, or soon.
        assert parameter in message[:60], case


def test_all_calls_are_there(outcomes):
    assert {case[0] for case in outcomes} == RIGHT.keys()


@pytest.mark.parametrize("options", [{"min_df": 3.5}, {"max_df": 0}, {"min_df": True}])
def test_a_frequency_out_of_range(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is .*, expected a number of texts"):
        check_frequency(options[name], name)


@pytest.mark.parametrize("order", [">", "<"])
@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "u2"])
def test_numbers_of_either_byte_order(order, kind):
    x = np.array([1, 5, 3, 2], dtype=order + kind)
    edges = genclf.discretize.quantile_edges(x, 2)
    assert edges.tolist() == [3]
    assert genclf.discretize.codes(x, edges).tolist() == [0, 1, 1, 0]
    assert genclf.discretize.codes(x, edges.astype(np.longdouble)).tolist() == [0, 1, 1, 0]


def test_words_from_a_list_are_kept_and_may_not_repeat():
    with pytest.raises(ValueError, match="words must differ: 'you' occurs more than once"):
        genclf.text.Vocabulary(("you", "are", "you"))


def test_the_waveforms_of_whole_numbers_are_those_of_floats():
    x = np.arange(21)
    whole, floats = (genclf.datasets.waveform_log_joint(a) for a in (x, x.astype(np.float32)))
    np.testing.assert_array_equal(whole, floats)
