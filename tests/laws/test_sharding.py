"""Many devices, one answer. The devices are made of one processor, in a process of their own."""

import os
import subprocess
import sys

PROGRAM = """
import jax, numpy as np
from functools import partial
from jax.sharding import NamedSharding, PartitionSpec as P
import genclf as gcf

jax.config.update("jax_enable_x64", True)
assert len(jax.devices()) == 4
mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
rng = np.random.default_rng(0)
n, d, k = 4 * 29, 5, 3
y = np.sort(rng.integers(0, k, n))  # in order, so that devices lack classes
inputs = {
    "gaussian": (gcf.qda(k), rng.normal(size=(n, d)) + y[:, None]),
    "categorical": (gcf.categorical_nb(k, 7), rng.integers(0, 7, (n, d))),
    "product": (
        gcf.Classifier(gcf.Product({"a": gcf.Gaussian(), "b": gcf.Bernoulli()}), k),
        {"a": rng.normal(size=(n, d)), "b": rng.integers(0, 2, (n, d))},
    ),
}
for name, (clf, x) in inputs.items():
    expected = gcf.fit(clf, x, y)

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(P("rows"), P("rows")), out_specs=P())
    def fit(x, y):
        return gcf.estimate(clf, gcf.pool(gcf.stats(clf, x, y), "rows"))

    # Over the mesh by hand, and by the compiler, from where the data lie.
    spread = jax.device_put((x, y), NamedSharding(mesh, P("rows")))
    for found in (fit(x, y), gcf.fit(clf, *spread)):
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    predicted = gcf.predict(expected, spread[0])
    np.testing.assert_array_equal(predicted, gcf.predict(expected, x))
    print(name)
"""


def test_sharded_as_single():
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["gaussian", "categorical", "product"]
