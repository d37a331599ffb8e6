"""Encode raw text as input of the models: word counts, word presence, or sequences of word ids.

`learn_vocabulary` looks at the training texts only; the `Vocabulary` it returns then encodes any
text, and knows nothing of words it has not seen. Words are found by scikit-learn's CountVectorizer,
with its default rule: two or more letters, digits or underscores in a row. scikit-learn is
imported when first needed, not with this module.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Int32
from numpy.typing import DTypeLike

from genclf.arguments.calls import checked_call
from genclf.arguments.domains import FLAG, whole_number
from genclf.arguments.extras import imported
from genclf.arguments.texts import (
    check_dtype,
    check_frequency,
    check_stop_words,
    check_texts,
    check_words,
)
from genclf.families.tokens import Tokens

__all__ = ["Vocabulary", "learn_vocabulary"]

# No text contains this word: words are made of letters, digits and underscores.
UNKNOWN = "<unknown>"


@checked_call
def learn_vocabulary(
    texts: Iterable[str],
    *,
    stop_words: str | Collection[str] | None = None,
    min_df: int | float = 1,
    max_df: int | float = 1.0,
    max_words: int | None = None,
    lowercase: bool = True,
    unknown: bool = False,
) -> "Vocabulary":
    """The vocabulary of the training texts: their distinct words, in alphabetical order.

    The words are those of `CountVectorizer(...).fit(texts)`, in its order; with `max_words` it may
    choose differently among words that occur equally often.

    Args:
        texts: the n training texts. Never pass test texts: their words would leak into the model.
        stop_words: words to leave out everywhere, `"english"` for scikit-learn's list, or None.
        min_df: leave out words in fewer texts than this: a number of texts if int, a share of them
            if float.
        max_df: leave out words in more texts than this; `1` is one text, `1.0` all of them.
        max_words: keep only this many words: those that occur most often and, among equally
            frequent ones, those that come first in the alphabet; None keeps all.
        lowercase: whether "Free" and "free" are one word.
        unknown: whether to add a last word, `"<unknown>"`, that stands for every word not in the
            vocabulary, including those left out by `min_df`, `max_df` and `max_words`, but not
            stop words.

    Returns:
        The vocabulary.

    Raises:
        ValueError: `texts` is a single str, is empty, holds something that is not a str, or leaves
            no word; or an option is out of its range.
        ImportError: scikit-learn is not installed.

    Example:
        >>> from genclf.text import learn_vocabulary
        >>> vocabulary = learn_vocabulary(["free prize, free entry", "are you free"])
        >>> vocabulary.words
        ('are', 'entry', 'free', 'prize', 'you')
        >>> vocabulary.counts(["Free! Free lunch?"]).toarray()
        array([[0., 0., 2., 0., 0.]], dtype=float32)
    """
    texts = check_texts(texts)
    if not texts:
        raise ValueError("texts is empty: there are no words to learn")
    if max_words is not None:
        max_words = whole_number(max_words, "max_words", 1)
    lowercase, unknown = FLAG.checked(lowercase, "lowercase"), FLAG.checked(unknown, "unknown")
    vectorizer = _count_vectorizer(
        stop_words=check_stop_words(stop_words),
        min_df=check_frequency(min_df, "min_df"),
        max_df=check_frequency(max_df, "max_df"),
        lowercase=lowercase,
    )
    try:
        counts = vectorizer.fit_transform(texts)
    except ValueError as error:
        raise ValueError(f"texts leave no word under these options: {error}") from error
    # With `max_features`, the choice among words of equal counts depends on the processor.
    often = np.argsort(-np.asarray(counts.sum(0)).ravel(), kind="stable")[:max_words]
    words = tuple(str(word) for word in vectorizer.get_feature_names_out()[np.sort(often)])
    return Vocabulary(
        words=(*words, UNKNOWN) if unknown else words,
        stop_words=frozenset(vectorizer.get_stop_words() or ()),
        lowercase=lowercase,
    )


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """V words and their columns, to encode texts as arrays; made by `learn_vocabulary`.

    A word that is not in the vocabulary is dropped, or counted as `"<unknown>"` if that is the last
    word. Every method takes texts, an iterable of str, and raises a ValueError when it is a single
    str or holds something else, naming the row. `counts` and `presence` return sparse arrays of
    SciPy, `token_ids` arrays of NumPy, and `tokens` arrays of JAX.

    Attributes:
        words: the V words, in the order of their columns.
        stop_words: words dropped before all else, never counted as unknown.
        lowercase: whether texts are lowercased first.

    Example:
        >>> from genclf.text import learn_vocabulary
        >>> vocabulary = learn_vocabulary(["win cash now", "see you now"], min_df=2, unknown=True)
        >>> vocabulary, len(vocabulary), vocabulary.words
        (Vocabulary(2 words), 2, ('now', '<unknown>'))
        >>> vocabulary.counts(["cash now, now or never"]).toarray()
        array([[2., 3.]], dtype=float32)
    """

    words: tuple[str, ...]
    stop_words: frozenset[str] = frozenset()
    lowercase: bool = True

    def __post_init__(self):
        """Check the fields, and convert words to a tuple: read from a file they are a list."""
        words = check_words(self.words, "words")
        if len(set(words)) < len(words):
            twice = next(word for word in words if words.count(word) > 1)
            raise ValueError(f"words must differ: {twice!r} occurs more than once")
        object.__setattr__(self, "words", tuple(words))
        stop_words = frozenset(check_words(self.stop_words, "stop_words"))
        object.__setattr__(self, "stop_words", stop_words)
        object.__setattr__(self, "lowercase", FLAG.checked(self.lowercase, "lowercase"))

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} words)"

    def counts(self, texts: Iterable[str], dtype: DTypeLike = np.float32) -> Any:
        """How often each word occurs in each text.

        Args:
            texts: n texts.
            dtype: type of the result.

        Returns:
            `(n, V)` counts, a `scipy.sparse.csr_array` that holds those above 0, as `Multinomial`
            and `Bernoulli` take it. `.toarray()` makes it dense.

        Raises:
            ValueError: a count does not fit in `dtype`, or `dtype` is not a type of real numbers.

        Example:
            >>> from genclf.text import learn_vocabulary
            >>> counts = learn_vocabulary(["ham", "spam"]).counts(["spam spam ham", "eggs"])
            >>> counts.shape, counts.nnz
            ((2, 2), 2)
            >>> counts.toarray()
            array([[1., 2.],
                   [0., 0.]], dtype=float32)
        """
        return self._counts(texts, check_dtype(dtype), lambda count: count)

    def presence(self, texts: Iterable[str], dtype: DTypeLike = np.float32) -> Any:
        """Whether each word occurs in each text: 1 or 0.

        Args:
            texts: n texts.
            dtype: type of the result.

        Returns:
            `(n, V)` zeros and ones, a `scipy.sparse.csr_array`; equal to `counts(texts) > 0`.

        Raises:
            ValueError: `dtype` is not a type of real numbers.

        Example:
            >>> from genclf.text import learn_vocabulary
            >>> found = learn_vocabulary(["ham", "spam"]).presence(["spam spam ham", "eggs"])
            >>> found.toarray()
            array([[1., 1.],
                   [0., 0.]], dtype=float32)
        """
        return self._counts(texts, check_dtype(dtype), np.ones_like)

    def _counts(
        self, texts: Iterable[str], dtype: np.dtype, f: Callable[[np.ndarray], np.ndarray]
    ) -> Any:
        """`f` of the count of each word in each text."""
        from scipy.sparse import csr_array  # slow to import

        ids, lengths = self._encode(texts)
        row = np.repeat(np.arange(len(lengths)), lengths)
        cell, count = np.unique(row * len(self) + ids, return_counts=True)
        with np.errstate(over="ignore"):  # an error below reports it
            cells = f(count).astype(dtype)
        if (cells != f(count)).any():
            raise ValueError(f"a count of {count.max()} does not fit in {dtype}")
        rows, columns = np.divmod(cell, len(self))
        starts = np.searchsorted(rows, np.arange(len(lengths) + 1))
        return csr_array((cells, columns, starts), shape=(len(lengths), len(self)))

    def token_ids(
        self, texts: Iterable[str], max_length: int | None = None
    ) -> tuple[Int32[np.ndarray, "n L"], Int32[np.ndarray, "n"]]:
        """The words of each text in the order they occur, as columns of the vocabulary.

        Args:
            texts: n texts.
            max_length: L; the first L known words of a longer text are kept. None takes the length
                of the longest text. Give a number to encode many batches with one shape.

        Returns:
            `(n, L)` ids, padded with 0 on the right, and the `(n,)` numbers of words in the rows.
            The first word of the vocabulary has id 0 too: only the lengths distinguish it from
            padding.

        Raises:
            ValueError: `max_length` is not a whole number >= 0.

        Example:
            >>> from genclf.text import learn_vocabulary
            >>> ids, lengths = learn_vocabulary(["ham", "spam"]).token_ids(["spam spam ham", "ham"])
            >>> ids.tolist(), lengths.tolist()
            ([[1, 1, 0], [0, 0, 0]], [3, 1])
        """
        if max_length is not None:
            max_length = whole_number(max_length, "max_length", 0)
        ids, lengths = self._encode(texts)
        width = int(lengths.max(initial=0)) if max_length is None else max_length
        position = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        kept = np.minimum(lengths, width)
        out = np.zeros((len(lengths), width), np.int32)
        # Both sides run through the texts in order, and through each text in order.
        out[np.arange(width) < kept[:, None]] = ids[position < width]
        return out, kept

    def tokens(self, texts: Iterable[str], max_length: int | None = None) -> Tokens:
        """The words of each text in order, as the input `Multinomial` takes in place of counts.

        Args:
            texts: n texts.
            max_length: L, as in `token_ids`.

        Returns:
            Tokens with JAX arrays `ids` (n, L) int32 and `mask` (n, L), True where there is a word.

        Example:
            >>> from genclf.text import learn_vocabulary
            >>> tokens = learn_vocabulary(["ham", "spam"]).tokens(["spam spam ham", "ham"])
            >>> tokens.mask.tolist(), tokens.vocab_size
            ([[True, True, True], [True, False, False]], 2)
        """
        ids, lengths = self.token_ids(texts, max_length)
        mask = np.arange(ids.shape[1]) < lengths[:, None]
        return Tokens(ids=jnp.asarray(ids), mask=jnp.asarray(mask), vocab_size=len(self))

    def _encode(
        self, texts: Iterable[str]
    ) -> tuple[Int32[np.ndarray, "num_tokens"], Int32[np.ndarray, "n"]]:
        """The ids of all texts, one text after the other, and how many each has.

        Every public method reads this one encoding, so they cannot disagree.
        """
        column, absent = self._column, self._column.get(UNKNOWN, -1)
        per_text = [
            np.fromiter((column.get(word, absent) for word in self._find_words(text)), np.int32)
            for text in check_texts(texts)
        ]
        per_text = [ids[ids >= 0] for ids in per_text]
        lengths = np.array([len(ids) for ids in per_text], np.int32)
        return np.concatenate([np.zeros(0, np.int32), *per_text]), lengths

    def __getstate__(self) -> dict[str, Any]:
        """The fields, without what is computed from them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _column(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    @cached_property
    def _find_words(self) -> Callable[[str], list[str]]:
        stop_words = sorted(self.stop_words) or None
        return _count_vectorizer(stop_words=stop_words, lowercase=self.lowercase).build_analyzer()


def _count_vectorizer(**options):
    module = imported("sklearn.feature_extraction.text", "text", "genclf.text needs")
    return module.CountVectorizer(**options)
