"""Times of predictive densities and point estimates, and of exact draws and NUTS."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import genclf as gcf
from benchmarks.timing import seconds


def scoring(scale: int = 1) -> Iterator[tuple[str, float, float]]:
    """(case, seconds of `log_joint` of the predictive, seconds of the fit's); float32."""
    for case, clf, x, y in _scored(scale):
        x = jax.tree.map(jnp.asarray, x)
        params, averaged = gcf.fit(clf, x, y), gcf.predictive(clf, gcf.stats(clf, x, y))
        plug_in, ours = partial(gcf.log_joint, params, x), partial(gcf.log_joint, averaged, x)
        # In turn, so that both see the same load.
        turns = [(seconds(ours, repeats=3), seconds(plug_in, repeats=3)) for _ in range(3)]
        yield case, min(a for a, _ in turns), min(b for _, b in turns)


def _scored(scale: int) -> Iterator[tuple[str, gcf.Classifier, Any, Any]]:
    n, d, num_classes = 100_000 // scale, 30, 10
    rng = np.random.default_rng(0)
    y = rng.integers(0, num_classes, n).astype(np.int32)
    x = rng.normal(size=(n, d)) + rng.normal(size=(num_classes, d))[y]
    prior = gcf.NormalInverseWishart()
    family = partial(gcf.Gaussian, prior=prior)
    shape = f"n = {n:,}, d = {d}, K = {num_classes}"
    for name, gaussian in (
        ("LDA", family(shared=True)),
        ("QDA", family()),
        ("Gaussian NB", family("diag")),
        ("spherical Gaussian", family("spherical")),
    ):
        yield f"{name}, {shape}", gcf.Classifier(gaussian, num_classes), x.astype(np.float32), y
    bits = (x > 0).astype(np.int32)
    yield f"Bernoulli NB, {shape}", gcf.bernoulli_nb(num_classes), bits, y
    codes = np.clip(np.floor(x), -2, 2).astype(np.int32) + 2
    yield f"categorical NB, {shape}, 5 values", gcf.categorical_nb(num_classes, 5), codes, y

    for num_classes in (2, 10):
        n, v = 5000 // scale, 5000
        y = rng.integers(0, num_classes, n).astype(np.int32)
        clf = gcf.multinomial_nb(num_classes)
        counts = rng.poisson(15 * _zipf(rng, num_classes, v)[y]).astype(np.float32)
        yield f"multinomial NB, counts, n = {n:,}, V = {v:,}, K = {num_classes}", clf, counts, y
        n, length = 20_000 // scale, 40
        y = rng.integers(0, num_classes, n).astype(np.int32)
        cumulative = np.cumsum(_zipf(rng, num_classes, v), 1)
        ids = np.stack([np.searchsorted(cumulative[k], rng.random(length)) for k in y])
        ids = np.minimum(ids, v - 1).astype(np.int32)
        words = gcf.Tokens.from_lengths(ids, rng.integers(5, length + 1, n), v)
        yield f"multinomial NB, tokens, n = {n:,}, length 40, K = {num_classes}", clf, words, y


def _zipf(rng: Any, num_classes: int, v: int) -> Any:
    """Word distributions of classes that agree on which words are common."""
    theta = np.exp(0.5 * rng.normal(size=(num_classes, v))) / np.arange(1, v + 1)
    return theta / theta.sum(1, keepdims=True)


def draws(num_draws: int = 1000) -> Iterator[tuple[str, float, float, float]]:
    """(case, seconds per effective draw: exact, NUTS without its warm-up, NUTS with it).

    Exact draws are independent, so that each is effective; of NUTS the least effective number
    counts. Times are of compiled calls, for NUTS of one chain.
    """
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    vowel, votes = gcf.datasets.load_vowel(), gcf.datasets.load_house_votes()
    prior = gcf.NormalInverseWishart()
    models = {
        "LDA, vowel (528 x 10, 11 classes)": (
            gcf.Classifier(gcf.Gaussian(shared=True, prior=prior), 11),
            jnp.asarray(vowel.x_train, jnp.float32),
            vowel.y_train,
        ),
        "categorical NB, house votes (435 x 16, 2 classes)": (
            gcf.categorical_nb(2, 3),
            jnp.asarray(votes.x),
            votes.y,
        ),
    }
    for name, (clf, x, y) in models.items():
        s = gcf.stats(clf, x, y)
        post, story = gcf.posterior(clf, s), gcf.bayes.story(clf, s)
        exact = seconds(partial(post.sample, jax.random.key(0), (num_draws,))) / num_draws
        chain = MCMC(
            NUTS(partial(story, x, y)),
            num_warmup=num_draws // 2,
            num_samples=num_draws,
            progress_bar=False,
            jit_model_args=True,
        )
        for _ in range(2):  # the first compiles
            start = time.perf_counter()
            chain.warmup(jax.random.key(1))
            jax.block_until_ready(chain.post_warmup_state)
            warm = time.perf_counter()
            chain.run(jax.random.key(2))
            jax.block_until_ready(chain.get_samples())
            end = time.perf_counter()
        sites = chain.get_samples(group_by_chain=True)
        with np.errstate(invalid="ignore"):  # NaN where a site never moves, as above a diagonal
            effective = min(np.nanmin(effective_sample_size(site)) for site in sites.values())
        yield name, exact, (end - warm) / effective, (end - start) / effective
