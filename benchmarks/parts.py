"""Parts of a data set beside one fit to all of it: the largest relative difference of any number.

`python -m benchmarks.parts FILE`: a CSV whose last column is the class, such as the Landsat data
of UCI (lines that begin with @ are skipped). Classes are merged after the fact, learned two at a
time, and summed up by ten clients about a common centre, in float64.
"""

import sys

import jax
import numpy as np

import genclf as gcf
from benchmarks.few_shot import read

CLIENTS = 10
MODELS = {
    "LDA": gcf.lda,
    "QDA": gcf.qda,
    "Gaussian naive Bayes": gcf.gaussian_nb,
    "RDA": lambda k: gcf.rda(k, pooling=0.3, shrinkage=0.1),
    "QDA, Ledoit-Wolf": lambda k: gcf.qda(k, shrinkage="ledoit-wolf"),
}


def difference(found: object, expected: object) -> float:
    """The largest difference of two trees of arrays, relative to the largest number of an array."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    each = [(np.asarray(a), np.asarray(b)) for a, b in pairs]
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in each)


def main() -> None:
    """Print the table."""
    jax.config.update("jax_enable_x64", True)
    x, y = read(sys.argv[1])
    num = y.max() + 1
    to, centre = np.arange(num) % 3, np.round(x.mean(0))
    print(f"{len(x)} rows, d = {x.shape[1]}, {num} classes\n")
    print("| model | classes merged | two classes at a time | ten clients |\n|---|---|---|---|")
    for name, model in MODELS.items():
        of = model(num)
        whole = gcf.fit(of, x, y)
        merged = gcf.estimate(model(3), gcf.relabel(gcf.stats(of, x, y), to))
        known = None
        for first in range(0, num, 2):
            last = min(first + 2, num)
            own = (y >= first) & (y < last)
            new = gcf.stats(model(last - first), x[own], y[own] - first)
            new = gcf.relabel(new, np.arange(first, last), last)
            known = new if known is None else gcf.merge(
                gcf.relabel(known, np.arange(first), last), new
            )  # fmt: skip
        figures = [
            difference(merged, gcf.fit(model(3), x, to[y])),
            difference(gcf.estimate(of, known), whole),
        ]
        if name != "QDA, Ledoit-Wolf":  # plain sums have no fourth moments
            clients = [slice(i, None, CLIENTS) for i in range(CLIENTS)]
            sums = [gcf.to_sums(gcf.stats(of, x[i], y[i]), centre) for i in clients]
            total = (sum(getattr(s, part) for s in sums) for part in ("count", "total", "products"))
            figures.append(difference(gcf.estimate(of, gcf.from_sums(of, *total, centre)), whole))
        shown = [f"{figure:.0e}" for figure in figures] + ["-"] * (3 - len(figures))
        print(f"| {name} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
