"""Checks of the arguments of `genclf.text`: texts, words, frequencies and dtypes."""

from collections.abc import Collection, Iterable
from contextlib import suppress

import numpy as np
from numpy.typing import DTypeLike

from genclf.arguments.domains import plain_sequence, shown


def check_texts(texts: Iterable[str]) -> list[str]:
    """Return the texts as a list; raise an error with the row of a text that is not a str."""
    texts = plain_sequence(texts, "texts", "a list of str, one per example")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts must be str: row {row} is {text!r:.40}, {type(text).__name__}")
    return texts


def check_words(words: Collection[str], name: str) -> list[str]:
    """Return the words as a list; raise if one is not a str."""
    words = plain_sequence(words, name, "words, each a str")
    for word in words:
        if not isinstance(word, str):
            raise ValueError(f"{name} must be str, got {shown(word)} among them")
    return words


def check_stop_words(stop_words: str | Collection[str] | None) -> str | list[str] | None:
    """Return "english" or None unchanged, and a collection of words as a sorted list."""
    if stop_words is None or (isinstance(stop_words, str) and stop_words == "english"):
        return stop_words
    if isinstance(stop_words, str):
        raise ValueError(f'stop_words must be "english", a list of str or None, got {stop_words!r}')
    return sorted(check_words(stop_words, "stop_words"))


def check_frequency(value: int | float, name: str) -> int | float:
    """A number of texts, at least 1; or a share of them, 0.0 to 1.0."""
    if isinstance(value, float | np.floating):
        if 0 <= value <= 1:
            return float(value)
    elif isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= 1:
        return int(value)
    raise ValueError(
        f"{name} is {shown(value)}, expected a number of texts (a whole number of at least 1) or a "
        "share of them (a float from 0.0 to 1.0)"
    )


def check_dtype(dtype: DTypeLike) -> np.dtype:
    """Return the NumPy dtype; raise unless it is a real dtype of SciPy's sparse arrays."""
    found = None
    if dtype is None or isinstance(dtype, str | type | np.dtype):
        with suppress(TypeError):
            found = np.dtype(dtype)
    # SciPy has no sparse arrays of float16.
    if found is None or not (found.kind in "biu" or found in (np.float32, np.float64)):
        raise ValueError(
            f"dtype is {shown(dtype)}, expected bool, integers, float32 or float64, such as "
            "np.float32"
        )
    return found
