"""A table of columns of all kinds, the models that read it, and how parts are compared."""

import numpy as np
import pyarrow as pa

import genclf as gcf
from genclf.text import learn_vocabulary

N, K = 101, 3
RNG = np.random.default_rng(0)
Y = np.array(["u", "v", "w"])[RNG.integers(0, K, N)]
TABLE = {
    "a": RNG.normal(size=N),
    "b": RNG.normal(30, 2, N),
    "holes": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
    "bit": RNG.integers(0, 2, N),
    "bits": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 2, N)),
    "count": RNG.integers(0, 7, N),
    "counts": np.where(RNG.random(N) < 0.2, np.nan, RNG.integers(0, 7, N)),
    "colour": np.array(["red", "green", "blue", "grey"])[RNG.integers(0, 4, N)],
    "size": np.array(["S", "L", None], object)[RNG.integers(0, 3, N)],
    "sms": np.array([" ".join(np.array(["free", "prize", "you", "are"])[i]) for i in
                     RNG.integers(0, 4, (N, 5))]),
    "y": np.where(RNG.random(N) < 0.1, None, Y),
    "w": RNG.integers(0, 4, N),
}  # fmt: skip
CATEGORIES = gcf.Categorical((4,))
MODELS = {
    "lda": (gcf.lda(K), ["a", "b"]),
    "qda": (gcf.qda(K), ["a", "b"]),
    "naive": (gcf.gaussian_nb(K), ["a", "b"]),
    "spherical": (gcf.Classifier(gcf.Gaussian("spherical", shared=True), K), ["a", "b"]),
    "holes": (gcf.Classifier(gcf.Gaussian("diag", missing="marginalize"), K), ["a", "holes"]),
    "bernoulli": (gcf.bernoulli_nb(K), ["bit"]),
    "threshold": (gcf.Classifier(gcf.Bernoulli(threshold=0.1), K), ["a", "b"]),
    "bits": (gcf.Classifier(gcf.Bernoulli(missing="marginalize"), K), ["bit", "bits"]),
    "multinomial": (gcf.multinomial_nb(K), ["bit", "count"]),
    "presence": (gcf.Classifier(gcf.Multinomial(presence=True), K), ["bit", "count"]),
    "words": (gcf.multinomial_nb(K), ["sms"]),
    "poisson": (gcf.Classifier(gcf.Poisson(), K), ["bit", "count"]),
    "counts": (gcf.Classifier(gcf.Poisson(missing="marginalize"), K), ["count", "counts"]),
    "categorical": (gcf.Classifier(CATEGORIES, K), ["colour"]),
    "mixed": (None, ["a", "holes", "colour", "size", "count"]),
    "product": (
        gcf.Classifier(gcf.Product({"rest": gcf.Gaussian(), "colour": CATEGORIES}), K),
        ["a", "b", "colour"],
    ),
}
JAX_ALONE = {
    "by column": (gcf.Classifier(gcf.Independent(gcf.Gaussian()), K), ["a", "b"]),
    "naive by column": (gcf.Classifier(gcf.Independent(gcf.Categorical(7)), K), ["count"]),
}


def told(name, **options):
    """A model, its schema and the table that it reads."""
    clf, columns = (MODELS | JAX_ALONE)[name]
    table = pa.table({key: pa.array(TABLE[key], from_pandas=True) for key in [*columns, "y", "w"]})
    kinds = {"sms": learn_vocabulary(TABLE["sms"])} if "sms" in columns else None
    schema = gcf.Schema.of(clf, table, label="y", weight="w", kinds=kinds, **options)
    return clf or schema.model(), schema, table


def numbers(part):
    found = {}

    def gather(node, name):
        if isinstance(node, dict):
            for key, item in node.items():
                gather(item, f"{name}/{key}")
        else:
            found.update({f"{name}.{key}": value for key, value in vars(node).items()})

    gather(part.labels, "labels")
    gather(part.conditional, "conditional")
    return found


def assert_equal(one, other, rtol=1e-12):
    one, other = numbers(one), numbers(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        scale = np.abs(other[name]).max(initial=0)
        np.testing.assert_allclose(value, other[name], rtol, rtol * scale, err_msg=name)


def same_bits(one, other):
    return one.to_bytes() == other.to_bytes()
