"""`python -m genclf`: the models of the library on the data that ships with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from rich.console import Console

import genclf as gcf
from genclf.cli.report import open_console, progress, section, show_table
from genclf.tables.held_out import held_out, stratified_folds
from genclf.tables.training_words import TrainingWords

SEED = 0
SAMPLE_SEED = 2
FOLDS = 10
MIN_COUNT = 20  # the odds of a rarer word are mostly smoothing
SHOWN = 8

EVENT_MODELS: list[tuple[str, gcf.Bernoulli | gcf.Multinomial]] = [
    ("Bernoulli", gcf.Bernoulli(threshold=0.0)),  # x is counts, for all three
    ("multinomial", gcf.Multinomial()),
    ("presence", gcf.Multinomial(presence=True)),
]

Advance = Callable[[str], None]


def demo() -> None:
    """Spam in text messages, spoken vowels, votes in Congress: fitted in turn, and checked."""
    console = open_console()
    with progress(console) as bar:
        task = bar.add_task("reading the messages", total=len(EVENT_MODELS) + 5)

        def advance(to: str) -> None:
            bar.update(task, advance=1, description=to)

        _spam(console, advance)
        _vowels(console)
        advance("votes")
        _votes(console)
        advance("three roads")
        three_roads(console)
        advance("done")
    console.print(
        "\nThe same for a file of yours: python -m genclf compare FILE.csv --label COLUMN"
    )


def _spam(console: Console, advance: Advance) -> None:
    sms = gcf.datasets.load_sms_spam()
    vocabulary = gcf.text.learn_vocabulary(sms.texts)
    counts = vocabulary.counts(sms.texts, dtype=np.uint8).toarray()
    folds = stratified_folds(sms.y, FOLDS, SEED)
    rows = []
    for name, family in EVENT_MODELS:
        advance(f"spam: {name}")
        for alpha in (1.0, 0.0):
            words = TrainingWords(replace(family, alpha=alpha))
            own, whole = (
                held_out(gcf.Classifier(replace(words, whole=every), 2), counts, sms.y, folds)
                for every in (False, True)
            )
            rows.append(
                (
                    name,
                    f"{alpha:g}",
                    f"{own.overall('accuracy'):.4f}",
                    f"{own.error('accuracy'):.4f}",
                    f"{own.overall('undecided'):.1%}",
                    f"{own.overall('log_loss'):.3f}",
                    f"{whole.overall('accuracy'):.4f}",
                )
            )
    section(
        console,
        f"SMS spam: {len(counts)} messages, {len(vocabulary)} words",
        f"{FOLDS}-fold cross-validation, stratified, shuffled with seed {SEED}; the vocabulary is "
        "that of the training messages; ± is the standard error over folds. Without smoothing "
        "(alpha 0), a message with a word never seen in ham and one never seen in spam is "
        "impossible: undecided, and counted as wrong. Last column: accuracy with the words of all "
        "messages, held-out ones too, as in many published results.",
    )
    headers = ("model", ">alpha", ">accuracy", ">±", ">undecided", ">log-loss", ">all words")
    base = f"{np.bincount(sms.y).max() / len(sms.y):.4f}"
    show_table(console, headers, [*rows, ("always ham", "", base, "", "", "", base)])

    advance("spam: words and sampled messages")
    params = gcf.fit(gcf.multinomial_nb(2), counts, sms.y)
    _telling_words(console, params, counts, sms.y, vocabulary.words)
    _sampled_messages(console, params, vocabulary.words, sms.class_names)
    advance("vowels")


def _telling_words(
    console: Console,
    params: gcf.ClassifierParams,
    counts: np.ndarray,
    y: np.ndarray,
    words: tuple[str, ...],
) -> None:
    theta = np.asarray(gcf.logistic_form(params)[0])
    occurs = np.stack([counts[y == k].sum(0) for k in (0, 1)])
    order = [j for j in np.argsort(theta).tolist() if occurs[:, j].sum() >= MIN_COUNT]

    def cells(j: int) -> tuple[str, ...]:
        return words[j], f"{np.exp(abs(theta[j])):.0f}", f"{occurs[1, j]}", f"{occurs[0, j]}"

    section(
        console,
        "The words that are the strongest evidence for spam, and for ham",
        "Each occurrence multiplies the odds by exp |theta|, where theta is the coefficient of the "
        "word in the logistic form of the multinomial model (alpha 1). Words that occur fewer than "
        f"{MIN_COUNT} times are left out.",
    )
    headers = ("for spam", ">odds x", ">in spam", ">in ham")
    show_table(
        console,
        (*headers, "", "for ham", *headers[1:]),
        [(*cells(order[-1 - i]), "", *cells(order[i])) for i in range(SHOWN)],
    )


def _sampled_messages(
    console: Console,
    params: gcf.ClassifierParams,
    words: tuple[str, ...],
    class_names: tuple[str, ...],
) -> None:
    section(
        console,
        "Messages drawn from the fitted model",
        f"Draw a class, then words independently given the class (seed {SAMPLE_SEED}). The model "
        "ignores the order of words, so their order here is arbitrary.",
    )
    shuffle = np.random.default_rng(SAMPLE_SEED)
    rows = []
    for k, key in enumerate(jax.random.split(jax.random.key(SAMPLE_SEED), len(class_names))):
        only = np.eye(len(class_names))[k]
        drawn, _ = gcf.sample(key, gcf.with_prior(params, only), shape=(3,))
        for count in np.asarray(drawn):
            message = shuffle.permutation(np.repeat(np.array(words), count))
            rows.append((class_names[k], " ".join(message)))
    show_table(console, ("class", "message"), rows)


def _vowels(console: Console) -> None:
    vowel = gcf.datasets.load_vowel()
    num_classes = len(vowel.class_names)
    models = [
        ("LDA", "0.32", "0.56", gcf.lda(num_classes)),
        ("QDA", "0.01", "0.53", gcf.qda(num_classes)),
        ("Gaussian NB", "", "", gcf.gaussian_nb(num_classes)),
    ]
    # One call for both sets of speakers, so that a single shape is compiled.
    x = np.concatenate([vowel.x_train, vowel.x_test])
    y = np.concatenate([vowel.y_train, vowel.y_test])
    rows = []
    for name, book_train, book_test, clf in models:
        params = gcf.fit(clf, vowel.x_train, vowel.y_train)
        train, test = np.split(np.asarray(gcf.predict(params, x)) != y, [len(vowel.y_train)])
        rows.append((name, book_train, *_errors(train), book_test, *_errors(test)))
    section(
        console,
        f"Vowels: {num_classes} vowels, 10 features, 8 speakers to learn from, 7 to test",
        "Error rates beside those of Hastie, Tibshirani & Friedman (2009), Table 4.1.",
    )
    headers = ("model", ">book train", ">ours", ">errors", ">book test", ">ours", ">errors")
    show_table(console, headers, rows)


def _errors(wrong: np.ndarray) -> tuple[str, str]:
    return f"{wrong.mean():.2f}", f"{wrong.sum()}/{len(wrong)}"


def _votes(console: Console) -> None:
    votes = gcf.datasets.load_house_votes()
    clf = gcf.categorical_nb(len(votes.class_names), len(votes.value_names))
    scores = held_out(clf, votes.x, votes.y, stratified_folds(votes.y, FOLDS, SEED))
    # θ of the columns side by side: class, vote, value.
    log_theta, _ = gcf.linear_form(gcf.fit(clf, votes.x, votes.y))
    theta = np.exp(log_theta).reshape(len(votes.class_names), *votes.x.shape[1:], -1)
    share = theta[:, :, votes.value_names.index("y")].T
    order = np.argsort(-abs(share[:, 0] - share[:, 1]))[:5]
    section(
        console,
        f"Votes: {len(votes.y)} members of the House in 1984, {len(votes.feature_names)} votes",
        f"Categorical naive Bayes (alpha 1; yea, nay or neither) predicts the party with accuracy "
        f"{scores.overall('accuracy'):.4f} ± {scores.error('accuracy'):.4f} in {FOLDS} folds "
        f"(always democrat: {(votes.y == 0).mean():.4f}). p(yea | party) differs most on:",
    )
    show_table(
        console,
        ("vote", *(f">{name}" for name in votes.class_names)),
        [(votes.feature_names[j], *(f"{p:.2f}" for p in share[j])) for j in order],
    )


def three_roads(console: Console) -> None:
    """The closed form beside gradient ascent and Lagrange's conditions, each certified."""
    vowel, votes = gcf.datasets.load_vowel(), gcf.datasets.load_house_votes()
    num_values = len(votes.value_names)
    models: list[tuple[str, gcf.Classifier, np.ndarray, np.ndarray]] = [
        ("Gaussian NB", gcf.gaussian_nb(len(vowel.class_names)), vowel.x_train, vowel.y_train),
        ("categorical", gcf.categorical_nb(2, num_values), votes.x, votes.y),
        ("  alpha 0", gcf.categorical_nb(2, num_values, alpha=0.0), votes.x, votes.y),
    ]
    section(
        console,
        "Three roads to the same estimate",
        "Log-likelihoods of the vowels and of the votes at three estimates: the closed formula; "
        "gradient ascent, which does not use it; and the Lagrange conditions, solved for the "
        "parameters and the multiplier of the constraint sum p(y) = 1, which equals the number of "
        'rows. The column "differ" is the largest difference of a parameter from the closed form. '
        "Certified: gradient and curvature are those of a maximum, at all three. In float64.",
    )
    headers = "model", ">formula", ">gradient", ">Lagrange", ">differ", ">multiplier", "certified"
    with jax.enable_x64(True):  # in float32 a likelihood has seven digits, too few to compare
        show_table(console, headers, [_compare(*model) for model in models])


def _compare(name: str, clf: gcf.Classifier, x: np.ndarray, y: np.ndarray) -> tuple[str, ...]:
    stats = gcf.stats(clf, x, y)
    closed = gcf.fit(clf, x, y)
    lagrange = gcf.fit_lagrange(clf, stats)
    roads = [closed, gcf.fit_gradient(clf, x, y).params, lagrange.params]
    certified = [bool(gcf.certify(clf, params, x, y).valid) for params in roads]
    return (
        name,
        *(f"{gcf.log_lik(params, stats):.2f}" for params in roads),
        f"{max(_difference(params, closed) for params in roads):.0e}",
        f"{lagrange.multipliers['log_prior']:.2f}/{len(y)}",
        "yes" if all(certified) else "no",
    )


def _difference(a: gcf.ClassifierParams, b: gcf.ClassifierParams) -> float:
    """The largest difference between parameters, of probabilities rather than their logarithms."""

    def values(params: gcf.ClassifierParams) -> list[Any]:
        declared = params.conditional.parameters
        found = [p.value(getattr(params.conditional, field)) for field, p in declared.items()]
        return [np.exp(params.log_prior), *found]

    pairs = zip(values(a), values(b), strict=True)
    return max(float(np.abs(np.asarray(u) - np.asarray(v)).max()) for u, v in pairs)
