"""`--html`: the result of `genclf.compare`, as one self-contained page."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from jinja2 import Environment, PackageLoader
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from genclf import plot
from genclf.classifier.classifier import ClassifierParams
from genclf.classifier.diagnosis import diagnose
from genclf.classifier.explanation import Explanation
from genclf.classifier.validate import validate
from genclf.cli.files import InputError
from genclf.cli.text_tables import FileTable
from genclf.covariance.estimate import GaussianDiagnosis
from genclf.families.capabilities import HasTerms, has
from genclf.families.structure import nodes_of
from genclf.plot.classes import as_text
from genclf.plot.evidence import draw_bars
from genclf.tables.comparison import Comparison
from genclf.tables.features import dense
from genclf.tables.frames import CellsOf, cells_of, num_rows, take

_ROWS = 2_000  # number of rows over which the terms of columns are averaged


def write_page(
    path: str,
    found: Comparison,
    table: FileTable,
    headers: Sequence[str],
    lines: Iterable[Sequence[str]],
    gains: tuple[Sequence[str], Sequence[Sequence[str]], str],
    **names: object,
) -> None:
    """Write the page; `InputError` if the file cannot be written.

    Args:
        path: the file.
        found: the result of `genclf.compare`.
        table: the table that was compared, and remarks on how it was read.
        headers: the headers of the table of models.
        lines: its rows, as they are printed.
        gains: headers, rows and explanation of the table of calibrated posteriors.
        **names: title, label and seed.
    """
    mpl.use("agg")  # no window
    cells = cells_of(table.columns, "table")
    template = Environment(loader=PackageLoader("genclf.cli", "."), autoescape=True)
    page = template.get_template("page.html").render(
        found=found,
        headers=headers,
        lines=list(lines),
        figures=list(_figures(found, cells)),
        checks=_checks(found, cells),
        remarks=table.remarks,
        gains=gains,
        version=version("genclf"),
        **names,
    )
    try:
        Path(path).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None


def _figures(found: Comparison, cells: CellsOf) -> Iterator[tuple[str, str, str]]:
    """Name, SVG in base64, and caption of each figure."""
    names = [str(name) for name in found.shares]
    after = found.log_posterior_calibrated
    calibrated = None if np.isnan(after).any() else after
    ax = plot.reliability(found.log_posterior, found.y, calibrated=calibrated)
    yield (
        "reliability",
        _drawn(ax),
        "Reliability: on the diagonal, the predicted probability equals the accuracy. The rows are "
        "held-out rows; bars are 95 % intervals. Calibrated: a temperature and a bias for each "
        "class, fitted to the other folds.",
    )
    decided = ~np.isnan(found.log_posterior).any(1)
    predicted = found.log_posterior[decided].argmax(1)
    ax = plot.confusion(found.y[decided], predicted, class_names=names)
    yield "confusion", _drawn(ax), "Rows of each class (down) by the class predicted (across)."
    if not has(found.best.params.conditional, HasTerms):  # such as QDA
        return
    rows = np.arange(min(_ROWS, num_rows(cells)))
    terms = found.best.explain(take(cells, rows))
    yield (
        "evidence",
        _drawn(_evidence(terms)),
        "How much each column contributes to the log-odds of the most probable class against the "
        "next: the mean of the absolute value of its term, over rows of the file.",
    )
    yield from _of_words(found)


def _of_words(found: Comparison) -> Iterator[tuple[str, str, str]]:
    """The figure of the words with the largest coefficients, for each column of texts."""
    best, names = found.best, [str(name) for name in found.shares]
    for column in best.columns:
        if column.kind == "text":
            whole = best.params.conditional
            own = jax.tree.map(jnp.asarray, whole.parts[column.part] if column.part else whole)
            params = ClassifierParams(jnp.asarray(best.params.log_prior), own)
            of = int(np.argmax(list(found.shares.values()))) if len(names) > 2 else 1
            ax = plot.log_odds(params, of=of, class_names=names, feature_names=column.values)
            yield (
                f"words of {column.name}",
                _drawn(ax),
                f"What one more occurrence of a word of {column.name} adds to the log-odds.",
            )


def _evidence(terms: Explanation) -> Axes:
    each = np.abs(np.asarray(terms.features))
    names = [as_text(name) for name in terms.feature_names or ()]
    ax = draw_bars(None, np.where(np.isfinite(each), each, 0).mean(0), names, 20)
    ax.set(xlabel="mean of |term|, nats")
    return ax


def _drawn(ax: Axes) -> str:
    file, figure = io.BytesIO(), ax.figure
    assert isinstance(figure, Figure)
    figure.set_size_inches(5.6, 4.2)
    figure.savefig(file, format="svg")
    plt.close(figure)
    return base64.b64encode(file.getvalue()).decode()


def _checks(found: Comparison, cells: CellsOf) -> list[str]:
    """The results of `validate` and `diagnose` for the best model and all rows, as sentences."""
    best = found.best
    with jax.enable_x64(True):
        x = dense(best.read(take(cells, found.rows)))
        try:
            validate(best.classifier, x, found.y)
            results = ["validate found nothing wrong."]
        except ValueError as error:
            results = [f"validate: {error}."]
        diagnosis = jax.tree.map(np.asarray, diagnose(best.classifier, x, found.y))
    for part in nodes_of(diagnosis.conditional, GaussianDiagnosis):
        least, most = part.rank.min(), part.rank.max()
        ranks = f"rank {most}" if least == most else f"ranks {least} to {most}"
        results.append(
            f"diagnose: the covariances have {ranks} of {part.constant.shape[-1]}, and "
            f"condition numbers up to {part.condition.max():.3g}."
        )
    if unseen := sum(int(a.sum()) for a in jax.tree.leaves(diagnosis.unseen)):
        results.append(f"diagnose: in {unseen} cases, a column has no value in any row of a class.")
    what = "something" if diagnosis.degenerate else "nothing"
    return [*results, f"diagnose: {what} is degenerate."]
