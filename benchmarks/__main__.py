"""Times every case and scikit-learn in the same run, and prints the ratios.

`make bench`, or `python -m benchmarks [--quick] [--markdown]`.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import sklearn
from rich.console import Console
from rich.table import Table
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.naive_bayes import GaussianNB

import genclf as gcf
from benchmarks import bayes, discriminative, kernel, mixtures, roads
from benchmarks.timing import machine, peak_bytes, seconds

MODELS: dict[str, tuple[Callable[[int], gcf.Classifier], type]] = {
    "LDA": (gcf.lda, LinearDiscriminantAnalysis),
    "QDA": (gcf.qda, QuadraticDiscriminantAnalysis),
    "Gaussian NB": (gcf.gaussian_nb, GaussianNB),
}
AIMS = {
    ("LDA", "fit"): 10,
    ("QDA", "fit"): 5,
    ("Gaussian NB", "fit"): 2,
    "predict": 2,
    "many": 100,
}


@dataclass
class Row:
    """One line of the table; ratios above 1 are in genclf's favour."""

    case: str
    ours: str
    peer: str
    ratio: float | None
    aim: str


def clock(value: float) -> str:
    """Seconds, readable."""
    return f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def timed(case: str, ours: Callable, peer: Callable, aim: float) -> Row:
    """A case timed on both sides, with the same data and in turn."""
    a, b = seconds(ours), seconds(peer, repeats=3)
    return Row(case, clock(a), clock(b), b / a, f"≥ {aim}")


def large(n: int, d: int, num_classes: int) -> Iterator[Row]:
    """One large fit and predict, and the memory it takes beyond x."""
    rng = np.random.default_rng(0)
    y_np = rng.integers(0, num_classes, n)
    x_np = rng.normal(size=(num_classes, d)).astype(np.float32)[y_np]
    x_np += rng.standard_normal(size=(n, d), dtype=np.float32)
    x, y = jnp.asarray(x_np), jnp.asarray(y_np, jnp.int32)
    for name, (preset, peer_class) in MODELS.items():
        clf = preset(num_classes)
        fit, peer = partial(gcf.fit, clf, x, y), partial(peer_class().fit, x_np, y_np)
        yield timed(f"{name} fit", fit, peer, AIMS[name, "fit"])
        params, fitted = fit(), peer()
        ours = partial(gcf.predict, params, x)
        yield timed(f"{name} predict", ours, partial(fitted.predict, x_np), AIMS["predict"])
        agreement = np.mean(np.asarray(ours()) == fitted.predict(x_np))
        if agreement < 0.999:
            raise AssertionError(f"{name}: only {agreement:.2%} of the predictions agree")
        for verb, call, other in (
            ("fit", fit, peer),
            ("predict", ours, partial(fitted.predict, x_np)),
        ):
            a, b = peak_bytes(call), peak_bytes(other)
            if a is not None and b is not None:
                shares = a / x_np.nbytes, b / x_np.nbytes
                shown = [f"{share:.2f} x" for share in shares]
                yield Row(f"{name} {verb}: peak memory beyond x", *shown, None, "≤ 0.50 x")


def many(num_sets: int, n: int, d: int, num_classes: int) -> Iterator[Row]:
    """Many small fits in one compiled call, against scikit-learn's loop (part of it, scaled)."""
    rng = np.random.default_rng(1)
    y_np = rng.integers(0, num_classes, (num_sets, n))
    x_np = rng.standard_normal(size=(num_sets, n, d), dtype=np.float32)
    xs, ys = jnp.asarray(x_np), jnp.asarray(y_np, jnp.int32)

    @jax.jit
    def vmapped(clf: gcf.Classifier, xs: Any, ys: Any) -> Any:
        return jax.vmap(gcf.fit, (None, 0, 0))(clf, xs, ys)

    @jax.jit
    def chunked(clf: gcf.Classifier, xs: Any, ys: Any) -> Any:
        return jax.lax.map(lambda data: gcf.fit(clf, *data), (xs, ys), batch_size=500)

    looped = 500
    for name, (preset, peer_class) in MODELS.items():
        clf = preset(num_classes)

        def loop(peer_class: type = peer_class) -> None:
            for x, y in zip(x_np[:looped], y_np[:looped], strict=True):
                peer_class().fit(x, y)

        peer = seconds(loop, repeats=3) * num_sets / looped
        for how, call in (("vmap", vmapped), ("lax.map, batch_size=500", chunked)):
            ours = seconds(partial(call, clf, xs, ys), repeats=3)
            case = f"{num_sets:,} x {name} fit, {how}"
            yield Row(case, clock(ours), clock(peer), peer / ours, f"≥ {AIMS['many']}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and data sets")
    parser.add_argument("--markdown", action="store_true", help="print a Markdown table")
    options = parser.parse_args()
    scale = 10 if options.quick else 1
    warnings.filterwarnings("ignore", module="sklearn")

    cases = [*large(500_000 // scale, 64, 10), *many(100_000 // scale, 100, 10, 3)]
    softmax = [
        *discriminative.large(100_000 // scale, 50, 5),
        *discriminative.many(1000 // scale, 100, 10, 3),
    ]
    cases += [Row(case, clock(a), clock(b), b / a, f"≥ {aim}") for case, a, b, aim in softmax]
    by_road = roads.ratios(20_000 // scale, 20, 5)
    cases += [Row(case, clock(a), clock(b), b / a, "") for case, a, b in by_road]
    for case, a, b in (case for d in (1, 5) for case in kernel.cases(10_000 // scale, d)):
        cases.append(Row(case, clock(a), clock(b), b / a, ""))
    latent = [
        *mixtures.large(100_000 // scale, 10, 8),
        *(case for d in (2, 5) for case in mixtures.many(100 // scale, 1000, d, 3)),
    ]
    cases += [Row(case, clock(a), clock(b), b / a, f"≥ {aim}") for case, a, b, aim in latent]
    for case, a, b in mixtures.missing(10_000 // scale, 10, 5):
        cases.append(Row(case, clock(a), "" if b is None else clock(b), b and b / a, ""))
    for case, ours, theirs in bayes.scoring(scale):
        label = f"{case}: predictive beside plug-in"
        cases.append(Row(label, clock(ours), clock(theirs), theirs / ours, "≥ 0.5"))
    for case, ours, sampled, warmed in bayes.draws():
        for how, theirs in (("NUTS", sampled), ("NUTS and its warm-up", warmed)):
            label = f"{case}: an exact draw beside an effective one of {how}"
            cases.append(Row(label, f"{ours * 1e6:.1f} µs", clock(theirs), theirs / ours, ""))
    title = (
        f"{machine()}; JAX {jax.__version__}, genclf {gcf.__version__}, "
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__}; float32"
    )
    lines = [
        (r.case, r.ours, r.peer, "" if r.ratio is None else f"{r.ratio:.1f}", r.aim) for r in cases
    ]
    head = ("case", "genclf", "scikit-learn", "ratio", "aim")
    if options.markdown:
        print(title, "", sep="\n")
        for line in (head, ("---",) * 5, *lines):
            print("|", " | ".join(line), "|")
        return
    table = Table(*head, title=title)
    for line in lines:
        table.add_row(*line)
    Console().print(table)


if __name__ == "__main__":
    main()
