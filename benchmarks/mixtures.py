"""Times of EM and missing cells, and of scikit-learn's `GaussianMixture` and `IterativeImputer`."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.mixture import GaussianMixture

import genclf as gcf
from benchmarks.timing import seconds

COVARIANCES = ("diag", "full", "spherical")
_TURNS = 3
Case = tuple[str, float, float, float]


def _data(rng: Any, n: int, d: int, num_classes: int, apart: float) -> tuple[Any, Any]:
    """Rows about centres, and places near those to start from."""
    centre = apart * rng.normal(size=(num_classes, d))
    x = centre[rng.integers(0, num_classes, n)] + rng.normal(size=(n, d))
    return x, centre + 0.5


def _start(mean: Any, covariance: Any) -> gcf.ClassifierParams:
    num_classes, d = mean.shape
    one = {"diag": np.ones(d), "full": np.eye(d), "spherical": np.ones(1)}[covariance]
    scale = jnp.asarray(np.stack([one] * num_classes), mean.dtype)
    log_prior = jnp.full(num_classes, -np.log(num_classes), mean.dtype)
    conditional = gcf.GaussianParams(jnp.asarray(mean), scale, covariance, False)
    return gcf.ClassifierParams(log_prior, conditional)


def _peer(covariance: str, mean: Any, **options: Any) -> GaussianMixture:
    """scikit-learn's, from the same start."""
    num_classes, d = mean.shape
    one: Any = {"diag": np.ones(d), "full": np.eye(d), "spherical": 1.0}[covariance]
    return GaussianMixture(
        num_classes,
        covariance_type=covariance,
        reg_covar=0,
        means_init=mean,
        weights_init=np.full(num_classes, 1 / num_classes, mean.dtype),
        precisions_init=np.stack([one] * num_classes).astype(mean.dtype),
        **options,
    )


def per_step(run: Callable[[int], Any], few: int = 2, many: int = 12) -> float:
    """Seconds of one step: of many less those of few, start and end not counted."""
    return (seconds(partial(run, many), repeats=2) - seconds(partial(run, few), repeats=2)) / (
        many - few
    )


def _in_turn(ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float]:
    """The shortest of some, taken in turn, so that both see the same load."""
    turns = [(ours(), theirs()) for _ in range(_TURNS)]
    return min(a for a, _ in turns), min(b for _, b in turns)


def large(n: int, d: int, num_classes: int) -> Iterator[Case]:
    """Time of one iteration, once the two are seen to make the same steps."""
    with jax.enable_x64(True):
        for dtype in (np.float64, np.float32):
            x, mean = _data(np.random.default_rng(0), n, d, num_classes, 2.0)
            x, mean = x.astype(dtype), mean.astype(dtype)
            rows, latent = jnp.asarray(x), jnp.full(n, -1, jnp.int32)
            for covariance in COVARIANCES:
                clf = gcf.Classifier(gcf.Gaussian(covariance), num_classes)
                ours = partial(
                    gcf.em, clf, rows, latent, key=jax.random.key(0), init=_start(mean, covariance)
                )
                if dtype == np.float64:
                    found = ours(max_steps=20, tol=-1.0).params
                    _agree(x, found, _peer(covariance, mean, tol=0.0, max_iter=20))
                name = f"mixture, {covariance}, {np.dtype(dtype).name}: one iteration"
                a, b = _in_turn(
                    lambda ours=ours: per_step(lambda steps: ours(max_steps=steps, tol=-1.0)),
                    lambda x=x, mean=mean, covariance=covariance: per_step(
                        lambda steps: _peer(covariance, mean, tol=0.0, max_iter=steps).fit(x).means_
                    ),
                )
                yield name, a, b, 3


def _agree(x: Any, found: gcf.ClassifierParams, peer: GaussianMixture) -> None:
    peer.fit(x)
    given = found.conditional
    covariances = peer.covariances_
    if peer.covariance_type != "full":
        diagonal = np.broadcast_to(covariances.reshape(len(covariances), -1), given.mean.shape)
        covariances = diagonal[:, :, None] * np.eye(x.shape[1])
    np.testing.assert_allclose(given.mean, peer.means_, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(given.covariances, covariances, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        jax.nn.logsumexp(gcf.log_joint(found, x), -1).mean(), peer.score(x), rtol=1e-8
    )


def many(num_sets: int, n: int, d: int, num_classes: int) -> Iterator[Case]:
    """Many small mixtures in one call, against a loop; float64 and tolerance 1e-3 on both sides."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(1)
        made = [_data(rng, n, d, num_classes, 1.5) for _ in range(num_sets)]
        x, means = (np.stack(arrays) for arrays in zip(*made, strict=True))
        xs, keys = jnp.asarray(x), jax.random.split(jax.random.key(0), num_sets)
        for covariance in COVARIANCES[:2]:
            clf = gcf.Classifier(gcf.Gaussian(covariance), num_classes)
            starts = jax.vmap(partial(_start, covariance=covariance))(jnp.asarray(means))
            for how, init, peers in (
                ("same start", starts, [_peer(covariance, mean) for mean in means]),
                (
                    "starts by k-means",
                    None,
                    [
                        GaussianMixture(
                            num_classes, covariance_type=covariance, reg_covar=0, random_state=0
                        )
                    ]
                    * num_sets,
                ),
            ):

                def one(data: Any, clf: gcf.Classifier = clf) -> gcf.EMSolution:
                    rows, key, start = data
                    latent = jnp.full(len(rows), -1, jnp.int32)
                    start = "k-means++" if start is None else start
                    return gcf.em(clf, rows, latent, key=key, init=start, tol=1e-3, max_steps=100)

                def loop(peers: list[GaussianMixture] = peers) -> None:
                    for peer, rows in zip(peers, x, strict=True):
                        peer.fit(rows)

                theirs = seconds(loop, repeats=3)
                for road, call in (
                    ("vmap", jax.jit(jax.vmap(one))),
                    ("lax.map", jax.jit(partial(jax.lax.map, one))),
                    ("lax.map, batch_size=10", jax.jit(partial(jax.lax.map, one, batch_size=10))),
                ):
                    case = f"{num_sets} mixtures, {covariance}, d = {d}, {how}, {road}"
                    ours = seconds(partial(call, (xs, keys, init)), repeats=5)
                    yield case, ours, theirs, 30


def missing(n: int, d: int, num_classes: int) -> Iterator[tuple[str, float, float | None]]:
    """One step of EM over missing cells (no peer), and the fit beside imputation; float32."""
    rng = np.random.default_rng(2)
    mix = np.eye(d) + 0.3 * rng.normal(size=(d, d))
    y = rng.integers(0, num_classes, n).astype(np.int32)
    x = (rng.normal(size=(n, d)) + rng.normal(size=(num_classes, d))[y]) @ mix
    x = np.where(rng.random((n, d)) < 0.3, np.nan, x).astype(np.float32)
    rows, labels = jnp.asarray(x), jnp.asarray(y)

    def impute() -> Any:
        filled = IterativeImputer(random_state=0).fit_transform(x)
        return LinearDiscriminantAnalysis().fit(filled, y)

    for name, family in (
        ("LDA", gcf.Gaussian(shared=True, missing="marginalize")),
        ("QDA", gcf.Gaussian(missing="marginalize")),
    ):
        clf = gcf.Classifier(family, num_classes)
        em = partial(gcf.em, clf, rows, labels, key=jax.random.key(0))
        step = per_step(lambda steps, em=em: em(max_steps=steps, tol=-1.0))
        yield f"{name}, 30% of cells missing: one step of EM", step, None
        whole = seconds(partial(gcf.fit, clf, rows, labels), repeats=3)
        yield (
            f"{name}, 30% of cells missing: fit, beside IterativeImputer and LDA",
            whole,
            seconds(impute, repeats=1),
        )
