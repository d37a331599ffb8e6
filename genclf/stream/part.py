"""Parts: statistics of some of the rows, small enough for a file or a message; and their sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from genclf.arguments.calls import checked_call
from genclf.files.annotations import Axes, field_types, mismatch
from genclf.files.container import FileError, from_bytes, put, take, to_bytes
from genclf.stream.extending import extended
from genclf.sums.host import HostClassifier, HostMoments, HostStats, HostSums, merge_host
from genclf.sums.problems import problem_of_stats

if TYPE_CHECKING:
    from genclf.stream.schema import Schema
    from genclf.sums.statistics import ClassifierStats
    from genclf.tables.cells import Value
else:  # imports JAX, which workers do not have
    ClassifierStats = Schema = Value = object


@dataclass(frozen=True)
class Part:
    """The statistics of some of the rows of a data set.

    They are NumPy arrays of float64; `stats` converts them for `genclf.estimate`.

    Attributes:
        labels: the weight of each class.
        conditional: the statistics of x.
        rows: the number of rows, including those without a label or weight.
        weight: the total weight of the rows with a label.
        unused: the number of rows that are not summed: without weight, or without a label in a
            model that needs one.
        unseen: the number of labels and categories that the schema does not have and ignores.
        part_ids: the names of the files, partitions or batches that were summed, in order.
        digest: that of the schema, and that of the params if the statistics are expectations.
        statistic: what is summed, in words.
    """

    labels: HostSums
    conditional: HostStats
    rows: int
    weight: float
    unused: int
    unseen: int
    part_ids: tuple[str, ...]
    digest: str
    statistic: str | None

    @property
    def stats(self) -> ClassifierStats:
        """The statistics as `genclf.stats` returns them, in the dtype of JAX's setting.

        In float32, pairs of high and low parts keep the precision of float64.
        """
        from genclf.stream.convert import as_stats

        return as_stats(HostClassifier(self.labels, self.conditional, self.statistic))

    def merge(self, other: Part) -> Part:
        """The part of the rows of both, this one's first; raise if they cannot be added."""
        self._check_alike(other)
        if twice := set(self.part_ids) & set(other.part_ids):
            raise ValueError(f"part {sorted(twice)[0]!r} occurs twice")
        return replace(added(self, other), part_ids=(*self.part_ids, *other.part_ids))

    def _check_alike(self, other: Part) -> None:
        if other.digest != self.digest:
            schemas, params = zip(
                *(p.digest.partition("-")[::2] for p in (other, self)), strict=True
            )
            what, differ = ("params", params) if schemas[0] == schemas[1] else ("schema", schemas)
            raise ValueError(
                f"part {_named(other)} was computed with the {what} {differ[0][:12] or None}, but "
                f"{_named(self)} with {differ[1][:12] or None}: expected the same {what}"
            )

    def remove(self, other: Part) -> Part:
        """The part without the rows of one that was combined into it: the inverse of `merge`.

        Counts are then those of the other parts, means and scatters up to about 1e-12 of the sums
        before; see `genclf.remove`.

        Args:
            other: a part with some of the ids of this one.

        Raises:
            ValueError: the other part is of another schema, has an id that this one has not, or has
                rows that this one cannot have.
        """
        from genclf.stream.convert import as_host, on_host_stats
        from genclf.sums.merging import removed

        self._check_alike(other)
        if strange := [own for own in other.part_ids if own not in self.part_ids]:
            raise ValueError(f"part {strange[0]!r} is not among the parts of {_named(self)}")
        whole, less = (
            on_host_stats(HostClassifier(p.labels, p.conditional, p.statistic))
            for p in (self, other)
        )
        rest = as_host(removed(whole, less))
        if wrong := problem_of_stats(rest.labels, rest.conditional, "the rest"):
            raise ValueError(f"{_named(other)} has rows that {_named(self)} has not: {wrong}")
        names = ("rows", "unused", "unseen")
        fewer = {name: getattr(self, name) - getattr(other, name) for name in names}
        ids = tuple(own for own in self.part_ids if own not in other.part_ids)
        return self._with(rest, part_ids=ids, **fewer)

    def extend(self, schema: Schema, longer: Schema) -> Part:
        """The part in the form of a longer schema, so that it merges with parts of that one.

        Args:
            schema: the schema of this part.
            longer: what `schema.extend` gave. Categories, words and classes that are new have no
                rows in this part; with `unseen="other"`, those counted as others stay so, and words
                that `schema` did not have stay left out.

        Raises:
            ValueError: the part is of another schema, `longer` is not longer than it, or the
                statistics are expectations, or sums that only JAX can compute; or labels or
                categories were ignored in this part, which `longer` may have.
        """
        if self.unseen:
            raise ValueError(
                f"part {self.part_ids[0]!r} ignored {self.unseen} labels or categories, which may "
                "be in the longer schema: sum its rows again, by that schema"
            )
        self._check_schema(schema)
        labels, conditional = extended(self.labels, self.conditional, schema, longer)
        of: dict[str, Any] = {"digest": longer.digest, "statistic": longer.statistic}
        return replace(self, labels=labels, conditional=conditional, **of)

    def relabel(self, schema: Schema, to: Mapping[Value, Value | None]) -> Part:
        """The part of the same rows under other labels, as of the schema `schema.relabel(to)`.

        Args:
            schema: the schema of this part.
            to: the new label of each class that has another one; None leaves its rows out.

        Raises:
            ValueError: the part is of another schema, the statistics are expectations, or `to` is
                not right for `schema.relabel` or `genclf.relabel`.

        Example:
            >>> import genclf as gcf
            >>> batch = {"x": [1.0, 2.0, 8.0, 9.0], "y": ["cat", "dog", "cat", "emu"]}
            >>> clf = gcf.gaussian_nb(3)
            >>> schema = gcf.Schema.of(clf, batch, label="y")
            >>> part = gcf.partial(clf, schema, batch, part_id="p")
            >>> part.relabel(schema, {"cat": "pet", "dog": "pet"}).labels.count.tolist()
            [3.0, 1.0]
        """
        from genclf.classifier.relabel import relabel
        from genclf.stream.convert import as_host, on_host_stats

        self._check_schema(schema)
        new = schema.relabel(to)
        stats = on_host_stats(HostClassifier(self.labels, self.conditional, self.statistic))
        index = [new.index_of(to.get(label, label)) for label in schema.classes]
        found = as_host(relabel(stats, index, len(new.classes)))
        return self._with(found, digest=new.digest)

    def _with(self, found: HostClassifier, **more: Any) -> Part:
        of: dict[str, Any] = {"labels": found.labels, "conditional": found.conditional, **more}
        return replace(self, weight=float(found.labels.count.sum()), **of)

    def _check_schema(self, schema: Schema) -> None:
        if self.digest != schema.digest:
            raise ValueError(
                f"part {self.part_ids[0]!r} was computed with the schema {self.digest[:12]}, but "
                f"schema is {schema.digest[:12]}: give the schema of the part"
            )

    def to_bytes(self) -> bytes:
        """The part in the format of `genclf.save`, which has checksums and no code."""
        arrays: dict[str, np.ndarray] = {}
        rest = {f.name: getattr(self, f.name) for f in fields(self)}
        tree = {name: put(rest.pop(name), arrays, _KINDS, {}) for name in ("labels", "conditional")}
        return to_bytes({"part": {**rest, **tree}}, arrays)

    @staticmethod
    def from_bytes(content: bytes) -> Part:
        """The part that `to_bytes` wrote; `FileError` if any of it has changed."""
        structure, arrays = from_bytes(content)
        try:
            part = dict(structure["part"])
            tree = {
                name: take(part.pop(name), arrays, _KINDS, {}) for name in ("labels", "conditional")
            }
            part["part_ids"] = tuple(part["part_ids"])
            found = Part(**part, **tree)
            wrong = _problem(found)
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
            raise FileError(f"it does not hold a part: {error}") from error
        if wrong:
            raise FileError(f"it is not a part: {wrong}")
        return found


def part_of(
    sums: HostClassifier, rows: int, name: str, digest: str, unused: int = 0, unseen: int = 0
) -> Part:
    """The part of these statistics."""
    weight, of = float(sums.labels.count.sum()), ((name,), digest, sums.statistic)
    return Part(sums.labels, sums.conditional, rows, weight, unused, unseen, *of)


def added(total: Part, part: Part) -> Part:
    """Add the statistics of `part` to `total`, which keeps its own ids.

    The caller keeps the list of ids, because it may be long.
    """
    return replace(
        total,
        labels=total.labels.merge(part.labels),
        conditional=merge_host(total.conditional, part.conditional),
        rows=total.rows + part.rows,
        weight=total.weight + part.weight,
        unused=total.unused + part.unused,
        unseen=total.unseen + part.unseen,
        statistic=part.statistic,
    )


def _problem(part: Part) -> str | None:
    """The first problem of a part, in words; None if there is none."""
    for name, hint in field_types(Part).items():
        if wrong := mismatch(getattr(part, name), hint, Axes()):
            return f"{name} {wrong}"
    for name in ("rows", "weight", "unused", "unseen"):
        value = getattr(part, name)
        if not 0 <= value < math.inf:
            return f"{name} is {value}, expected a finite number >= 0"
    return problem_of_stats(part.labels, part.conditional, "the part")


_KINDS: dict[str, type] = {"sums": HostSums, "moments": HostMoments, "classifier": HostClassifier}


@checked_call
def combine(parts: Iterable[Part]) -> Part:
    """The part of all rows, from parts of some of them.

    The parts are sorted by their first id, then merged pairwise in a binary tree: the result has
    the same bits in whatever order they are given.

    Args:
        parts: parts of one schema.

    Returns:
        The `Part` of all of them.

    Raises:
        ValueError: there is no part, a part is given twice, or the parts differ in their schemas,
            or in the params of their expectations.

    Example:
        >>> import genclf as gcf
        >>> batch = {"x": [1.0, 2.0, 8.0], "y": ["a", "a", "b"]}
        >>> clf = gcf.gaussian_nb(2)
        >>> schema = gcf.Schema.of(clf, batch, label="y")
        >>> parts = [gcf.partial(clf, schema, [batch], part_id=name) for name in ("one", "two")]
        >>> whole = gcf.combine(parts)
        >>> whole.rows, whole.part_ids
        (6, ('one', 'two'))
        >>> print(gcf.estimate(clf, whole.stats).conditional.mean.ravel())
        [1.5 8. ]
    """
    given = list(parts) if isinstance(parts, Iterable) else [parts]
    if strange := [part for part in given if not isinstance(part, Part)]:
        raise ValueError(
            f"parts hold {strange[0]!r:.60}, expected Parts, as genclf.partial returns"
        )
    if not given:
        raise ValueError("parts is empty: there is no part to combine")
    return merged(sorted(given, key=lambda part: part.part_ids))


def merged(parts: Iterable[Any], merge: Callable[[Any, Any], Any] = Part.merge) -> Any:
    """The result of `combine` for these parts in order, with few of them in memory at once."""
    done: list[tuple[int, Any]] = []
    for part in parts:
        level = 0
        while done and done[-1][0] == level:
            part, level = merge(done.pop()[1], part), level + 1
        done.append((level, part))
    _, whole = done.pop()
    for _, part in reversed(done):
        whole = merge(part, whole)
    return whole


def _named(part: Part) -> str:
    return ", ".join(map(repr, part.part_ids))[:80]
