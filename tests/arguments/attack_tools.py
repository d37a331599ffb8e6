"""Every argument of the tools beside the models, given what it is not; called by a test."""

import inspect
import traceback

import numpy as np
import pandas as pd
import scipy.sparse

import genclf.datasets
import genclf.discretize
import genclf.text

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
