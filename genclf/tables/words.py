"""The words of texts, without JAX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from genclf.arguments.extras import imported


def words_of(texts: Iterable[str]) -> tuple[str, ...]:
    """The distinct words of texts, in order; none if no word has two letters or more."""
    try:
        return tuple(str(word) for word in _counter().fit(texts).get_feature_names_out())
    except ValueError:
        return ()


def counts_of(texts: Iterable[str], words: Sequence[str], lowercase: bool) -> Any:
    """Counts of each word in each text, as a sparse array."""
    from scipy.sparse import csr_array

    index = {word: i for i, word in enumerate(words)}
    counter = _counter(vocabulary=index, lowercase=lowercase, dtype=np.float64)
    return csr_array(counter.transform(texts))


def import_counter() -> ModuleType:
    """The module of scikit-learn that counts words; its import takes a second or more."""
    return imported("sklearn.feature_extraction.text", "text", "texts need")


def _counter(**options: Any) -> Any:
    return import_counter().CountVectorizer(**options)
