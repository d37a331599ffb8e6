"""Text encodings: the same as CountVectorizer, and the same as one another."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sklearn.feature_extraction.text import CountVectorizer

import genclf.text
from genclf.arguments.texts import check_frequency
from genclf.datasets import load_sms_spam
from genclf.text import Vocabulary, learn_vocabulary
from tests.processes import run

TRAIN = ["The cat sat on the mat.", "the Dog sat", "cat & dog & cat", "", "naïve café, O2 x"]
TEST = ["a cat, a bird; the DOG, the cat", "nothing known here", "", "café café"]
# Texts of few short words, so that they repeat; "x" is too short to be a word.
WORDS = ["ab", "Ab", "cd", "ef", "the", "x"]
TEXTS = st.lists(st.lists(st.sampled_from(WORDS), max_size=7).map(" ".join), min_size=1, max_size=7)

OPTIONS = [
    {},
    {"lowercase": False},
    {"stop_words": "english"},
    {"stop_words": ["the", "cat"]},
    {"min_df": 2},
    {"min_df": 0.3},
    {"max_df": 1},
    {"max_df": 0.3},
    {"max_words": 3},
    {"max_words": 2, "stop_words": ["the"], "min_df": 2},
]


def peer(options, texts):
    renamed = {"max_features" if k == "max_words" else k: v for k, v in options.items()}
    return CountVectorizer(**renamed).fit(texts)


def peer_of(vocabulary):
    return CountVectorizer(vocabulary=vocabulary.words, lowercase=vocabulary.lowercase)


def bincounts(vocabulary, texts, max_length=None):
    ids, lengths = vocabulary.token_ids(texts, max_length)
    return np.array(
        [
            np.bincount(row[:length], minlength=len(vocabulary))
            for row, length in zip(ids, lengths, strict=True)
        ]
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_parity_with_count_vectorizer(options):
    vocabulary, vectorizer = learn_vocabulary(TRAIN, **options), peer(options, TRAIN)
    if "max_words" in options:  # the peer's choice of equals is not that of the alphabet
        counts = [coder.transform(TRAIN).sum() for coder in (vectorizer, peer_of(vocabulary))]
        assert counts[0] == counts[1] and len(vocabulary) == len(vectorizer.vocabulary_)
        return
    assert vocabulary.words == tuple(vectorizer.get_feature_names_out())
    for texts in (TRAIN, TEST):
        expected = vectorizer.transform(texts).toarray()
        np.testing.assert_array_equal(vocabulary.counts(texts).toarray(), expected)
        np.testing.assert_array_equal(vocabulary.presence(texts).toarray(), expected > 0)
        np.testing.assert_array_equal(bincounts(vocabulary, texts), expected)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_unknown_counts_all_words_that_are_neither_known_nor_stop_words(options):
    known = learn_vocabulary(TRAIN, **options)
    vocabulary = learn_vocabulary(TRAIN, **options, unknown=True)
    assert vocabulary.words == (*known.words, "<unknown>")
    kept = {k: v for k, v in options.items() if k in ("lowercase", "stop_words")}
    find_words = CountVectorizer(**kept).build_analyzer()
    for texts in (TRAIN, TEST):
        counts = vocabulary.counts(texts).toarray()
        np.testing.assert_array_equal(counts[:, :-1], known.counts(texts).toarray())
        np.testing.assert_array_equal(counts.sum(axis=1), [len(find_words(t)) for t in texts])


@pytest.mark.slow
@given(train=TEXTS, test=TEXTS, unknown=st.booleans())
def test_encodings_agree(train, test, unknown):
    if all(word in ("", "x") for text in train for word in text.split(" ")):
        with pytest.raises(ValueError, match="empty vocabulary"):
            learn_vocabulary(train, unknown=unknown)
        return
    vocabulary = learn_vocabulary(train, unknown=unknown)
    counts = vocabulary.counts(test).toarray()
    assert counts.shape == (len(test), len(vocabulary))
    np.testing.assert_array_equal(counts, bincounts(vocabulary, test))
    np.testing.assert_array_equal(vocabulary.presence(test).toarray(), counts > 0)


def test_sms_spam():
    texts = load_sms_spam().texts
    train, test = texts[:1674], texts[1674:]
    vocabulary, vectorizer = learn_vocabulary(train), CountVectorizer().fit(train)
    assert len(vocabulary) == len(vectorizer.vocabulary_) > 4000
    expected = vectorizer.transform(test).toarray()
    np.testing.assert_array_equal(vocabulary.counts(test).toarray(), expected)
    np.testing.assert_array_equal(bincounts(vocabulary, test), expected)


def test_token_ids_keep_the_order_of_the_words():
    vocabulary = learn_vocabulary(TRAIN)
    ids, lengths = vocabulary.token_ids(TEST)
    words = [
        [vocabulary.words[i] for i in row[:length]]
        for row, length in zip(ids, lengths, strict=True)
    ]
    assert words == [["cat", "the", "dog", "the", "cat"], [], [], ["café", "café"]]
    assert ids.dtype == lengths.dtype == np.int32
    assert ids.shape == (4, 5) and (ids[1:3] == 0).all() and (ids[3, 2:] == 0).all()


@pytest.mark.parametrize("max_length", [0, 1, 2, 5, 7])
def test_max_length_keeps_the_first_words(max_length):
    vocabulary = learn_vocabulary(TRAIN, unknown=True)
    longest, all_lengths = vocabulary.token_ids(TEST)
    ids, lengths = vocabulary.token_ids(TEST, max_length)
    assert ids.shape == (4, max_length)
    np.testing.assert_array_equal(lengths, np.minimum(all_lengths, max_length))
    expected = np.pad(longest, [(0, 0), (0, 7)])[:, :max_length]
    expected = np.where(np.arange(max_length) < lengths[:, None], expected, 0)
    np.testing.assert_array_equal(ids, expected)


def test_tokens():
    vocabulary = learn_vocabulary(TRAIN)
    ids, lengths = vocabulary.token_ids(TEST, max_length=3)
    tokens = vocabulary.tokens(TEST, max_length=3)
    assert tokens.vocab_size == len(vocabulary)
    assert tokens.ids.dtype == np.int32 and tokens.mask.dtype == np.bool_
    np.testing.assert_array_equal(tokens.ids, ids)
    np.testing.assert_array_equal(tokens.mask.sum(axis=1), lengths)
    assert tokens.mask[0].tolist() == [True] * 3 and tokens.mask[3].tolist() == [True, True, False]


def test_texts_without_words_have_length_zero():
    vocabulary = learn_vocabulary(TRAIN)
    ids, lengths = vocabulary.token_ids(["", "!"])
    assert ids.shape == (2, 0) and lengths.tolist() == [0, 0]


def test_no_texts_encode_to_no_rows():
    vocabulary = learn_vocabulary(TRAIN)
    assert vocabulary.counts([]).shape == vocabulary.presence([]).shape == (0, len(vocabulary))
    assert vocabulary.token_ids([])[0].shape == (0, 0)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int32, np.float32, np.float64])
def test_dtypes(dtype):
    vocabulary = learn_vocabulary(["ab cd"])
    for encode in (vocabulary.counts, vocabulary.presence):
        result = encode(["ab", "cd"], dtype)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result.toarray(), [[1, 0], [0, 1]])
        assert result.nnz == 2 and result.has_canonical_format


@pytest.mark.parametrize(("dtype", "count"), [(bool, 2), (np.uint8, 256)])
def test_a_count_that_does_not_fit_is_an_error(dtype, count):
    vocabulary = learn_vocabulary(["ab cd"])
    with pytest.raises(ValueError, match=f"count of {count} does not fit in {np.dtype(dtype)}"):
        vocabulary.counts(["ab " * count], dtype)
    assert vocabulary.presence(["ab " * count], dtype).toarray().tolist() == [[1, 0]]


def test_any_iterable_of_str_is_texts():
    vocabulary = learn_vocabulary(text for text in TRAIN)
    assert vocabulary == learn_vocabulary(np.array(TRAIN)) == learn_vocabulary(tuple(TRAIN))
    expected = vocabulary.counts(TEST).toarray()
    for texts in (iter(TEST), tuple(TEST), np.array(TEST), np.array(TEST, object)):
        np.testing.assert_array_equal(vocabulary.counts(texts).toarray(), expected)


def test_vocabulary_is_a_plain_value():
    vocabulary = learn_vocabulary(TRAIN, stop_words=["the"], unknown=True)
    expected = vocabulary.counts(TEST).toarray()
    copy = pickle.loads(pickle.dumps(vocabulary))
    remade = Vocabulary(vocabulary.words, frozenset(["the"]))
    assert vocabulary == copy == remade and hash(vocabulary) == hash(remade)
    for other in (copy, remade):
        np.testing.assert_array_equal(other.counts(TEST).toarray(), expected)
    assert vocabulary != learn_vocabulary(TRAIN, unknown=True)
    assert repr(vocabulary) == f"Vocabulary({len(vocabulary)} words)"
    with pytest.raises(AttributeError):
        vocabulary.words = ()


@pytest.mark.parametrize(
    ("texts", "options", "message"),
    [
        ("a single text", {}, "texts must be a list of str"),
        ([], {}, "texts is empty"),
        (["fine", 3], {}, "row 1 is 3, int"),
        (["fine", "fine", None], {}, "row 2 is None, NoneType"),
        (["fine", b"bytes"], {}, "row 1 is b'bytes', bytes"),
        (["", "a b c"], {}, "empty vocabulary"),
        (["the and"], {"stop_words": "english"}, "empty vocabulary"),
        (["ab", "cd"], {"min_df": 2}, "no terms remain"),
        (["ab", "cd"], {"min_df": 2, "max_df": 1}, "max_df corresponds to < documents"),
        (
            ["ab", "cd"],
            {"max_words": 0},
            "max_words is 0, expected >= 1, a whole number",
        ),
        (["ab", "cd"], {"min_df": -1}, "min_df"),
        (["ab", "cd"], {"stop_words": "french"}, 'stop_words must be "english"'),
    ],
)
def test_learn_vocabulary_rejects(texts, options, message):
    # An iterator, because a type checker may look into a list and raise an error of its own.
    with pytest.raises(ValueError, match=message):
        learn_vocabulary(texts if isinstance(texts, str) else iter(texts), **options)


@pytest.mark.parametrize("method", ["counts", "presence", "token_ids", "tokens"])
def test_encodings_reject(method):
    encode = getattr(learn_vocabulary(TRAIN), method)
    with pytest.raises(ValueError, match="texts must be a list of str"):
        encode("a single text")
    with pytest.raises(ValueError, match=r"row 1 is 0\.5, float"):
        encode(iter(["fine", 0.5]))


@pytest.mark.parametrize("method", ["token_ids", "tokens"])
def test_negative_max_length_is_rejected(method):
    with pytest.raises(ValueError, match="max_length is -1, expected >= 0, a whole number"):
        getattr(learn_vocabulary(TRAIN), method)(TEST, max_length=-1)


def test_missing_scikit_learn_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(ImportError, match=r'pip install "genclf\[text\]"'):
        learn_vocabulary(TRAIN)


def test_import_does_not_import_scikit_learn():
    program = "import sys, genclf.text; print('sklearn' in sys.modules)"
    done = run(program, check=True)
    assert done.stdout.strip() == "False"


def test_public_names():
    assert genclf.text.__all__ == ["Vocabulary", "learn_vocabulary"]


def test_of_words_that_occur_equally_often_the_first_are_kept():
    texts = ["dd cc bb aa ee", "ee dd aa cc bb", "ee"]
    assert learn_vocabulary(texts, max_words=3).words == ("aa", "bb", "ee")


@pytest.mark.parametrize("options", [{"min_df": 3.5}, {"max_df": 0}, {"min_df": True}])
def test_a_frequency_out_of_range(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"{name} is .*, expected a number of texts"):
        check_frequency(options[name], name)


def test_words_from_a_list_are_kept_and_may_not_repeat():
    with pytest.raises(ValueError, match="words must differ: 'you' occurs more than once"):
        Vocabulary(("you", "are", "you"))
