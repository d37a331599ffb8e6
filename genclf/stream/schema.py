"""The schema of a data set: how a model reads each column, the same for all files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genclf.stream.assignment import Assignment
from genclf.stream.batches import ArrowTable, Batch, Batches
from genclf.stream.files import Reader
from genclf.stream.learning import learned, longer_lists
from genclf.stream.recipes import PartOfModel
from genclf.stream.rows import Rows, no_cells, rows_in
from genclf.stream.schema_text import fields_of, json_of
from genclf.sums.host import HostStats, LabelledRows
from genclf.tables.cells import STRINGS, TRUTH, Value, checked_values, type_of
from genclf.tables.columns import Column, Unseen
from genclf.tables.frames import CellsOf
from genclf.tables.kinds import Given
from genclf.tables.place import Place

if TYPE_CHECKING:
    from genclf.classifier.classifier import Classifier
else:  # imports JAX, which reading rows does not need
    Classifier = object


@dataclass(frozen=True)
class Schema:
    """How a model reads the columns of a data set, the same for all of its files.

    `Schema.of` and `Schema.scan` make one. Reading rows with it needs no JAX.

    Attributes:
        columns: the columns that the model reads, in order.
        label: the column of labels.
        weight: the column of weights; None for ones.
        classes: the classes in order.
        unseen_labels: the treatment of a label that is not among the classes: "error" raises, and
            with "ignore" the row is unlabelled.
        parts: the parts of the model.
        statistic: what is summed, in words; None where this depends on params.
    """

    columns: tuple[Column, ...]
    label: str
    weight: str | None
    classes: tuple[Value, ...]
    unseen_labels: Literal["error", "ignore"]
    parts: tuple[PartOfModel, ...]
    statistic: str | None

    @staticmethod
    def of(
        clf: Classifier | None,
        batch: Batch,
        label: str,
        *,
        weight: str | None = None,
        kinds: Mapping[str, Given] | None = None,
        parts: Mapping[str, Sequence[str]] | None = None,
        classes: Iterable[object] | None = None,
        missing: Literal["ignore", "value"] = "ignore",
        unseen: Unseen | None = None,
        unseen_labels: Literal["error", "ignore"] = "error",
    ) -> Schema:
        """The schema of a data set whose first batch holds all classes and values.

        Without a model, columns are read by the rules of `genclf.compare`; a warning names columns
        that are dropped. A model reads all columns: one without parts as what it models; in a
        `Product`, a part with the name of a column reads that column, and other columns go to the
        part of their kind. By their types, numbers are then numeric, strings and truth values are
        categorical, and strings of three words or more on average are text, if over 50 of them
        differ or more than half.

        Args:
            clf: the model; None for naive Bayes of columns of any kinds, `schema.model()`.
            batch: a record batch or table of Arrow, a table of pandas, polars and others, or a
                dict of arrays, (n,) or (n, d).
            label: the column of labels; a row with a null there has no label, and is used by
                steps of EM alone.
            weight: the column of weights; None for ones.
            kinds: how columns are read, if not so: a dict from their names to "numeric", "count",
                "categorical", "binary", "binned" (numbers in ten bins of about equally many),
                "text", "date" (its year, month, weekday and hour) or "drop", the list of values of
                a categorical column, or the `Vocabulary` of texts. "kernel", for numbers with
                kernel densities, is not for streams: such a density needs all rows at once.
            parts: the columns of each part of the model, where their kinds do not determine it; a
                part reads its columns in the order of the batch.
            classes: the classes in order; None for those of the batch, sorted.
            missing: "ignore" takes a missing category for no evidence, if the model can; with
                "value" it is one more value of the columns that miss some here.
            unseen: the treatment of other categories later: "ignore" takes them for no evidence,
                with "other" they are one more value, "error" raises. None is "ignore" if the
                model has `unseen="ignore"`; else "error" in rows to learn from, and in rows to
                predict "ignore" if cells may be missing.
            unseen_labels: the treatment of other labels later; see the attribute.

        Raises:
            ValueError: a column does not fit the model, or has another number of values; or the
                number of classes is not the model's.

        Example:
            >>> import genclf as gcf
            >>> batch = {"height": [1.6, 1.9, 1.7], "weight": [55.0, 90.0, 64.0], "y": list("aba")}
            >>> schema = gcf.Schema.of(gcf.qda(2), batch, label="y")
            >>> schema.classes, [column.kind for column in schema.columns]
            (('a', 'b'), ['numeric', 'numeric'])
        """
        given: Any = {"weight": weight, "kinds": kinds, "parts": parts, "classes": classes}
        given |= {"missing": missing, "unseen": unseen, "unseen_labels": unseen_labels}
        return Schema.scan(clf, [batch], label, **given)

    @staticmethod
    def scan(
        clf: Classifier | None,
        batches: Batches,
        label: str,
        *,
        weight: str | None = None,
        kinds: Mapping[str, Given] | None = None,
        parts: Mapping[str, Sequence[str]] | None = None,
        classes: Iterable[object] | None = None,
        missing: Literal["ignore", "value"] = "ignore",
        unseen: Unseen | None = None,
        unseen_labels: Literal["error", "ignore"] = "error",
    ) -> Schema:
        """The schema of a data set, from a first pass that collects classes, values and words.

        The arguments are those of `of`, except for the data. The first 65,536 rows determine the
        kind of a column, or the first batch in which it is not null. With `classes` and `kinds`,
        the pass ends when no value of a column remains to be collected.

        Args:
            clf: the model, or None.
            batches: files or batches, as `genclf.stream.fit_batches` takes them. In CSV a column
                whose first rows are numbers is one of numbers, so that 01 and 1 are the same; give
                the values of such a column as strings, by `kinds`.
            label: the column of labels.
            weight: the column of weights.
            kinds: how columns are read.
            parts: the columns of each part of the model.
            classes: the classes in order.
            missing: whether a missing category is ignored, or a value.
            unseen: the treatment of other categories later.
            unseen_labels: the treatment of other labels later.

        Raises:
            ValueError: as for `of`, or a column has another type in a later batch.

        Example:
            >>> import genclf as gcf
            >>> batches = [{"size": list("LSLS"), "y": [0, 1, 0, 1]}]
            >>> batches += [{"size": ["M", "M"], "y": [1, 0]}]
            >>> schema = gcf.Schema.scan(None, batches, label="y")
            >>> schema.columns[0].kind, schema.columns[0].values
            ('categorical', ('L', 'M', 'S'))
        """
        from genclf.stream import plan
        from genclf.tables.choices import MISSING as MISSING_CELL, UNSEEN, UNSEEN_LABELS

        MISSING_CELL.checked(missing, "missing")
        UNSEEN.checked(unseen, "unseen")
        UNSEEN_LABELS.checked(unseen_labels, "unseen_labels")
        wanted = None if clf is None else plan.kinds_of(plan.generative(clf))
        others = [label] if weight is None else [label, weight]
        assignment = Assignment.given(wanted, kinds, parts, missing, unseen)
        dropped = frozenset(name for name in assignment.kinds if assignment.drops(name))
        columns, found = learned(
            assignment, Reader(ignored=dropped).all_tables(batches), others, classes
        )
        clf = plan.mixed_model(columns, len(found)) if clf is None else clf
        columns = plan.with_unseen(clf, columns)
        made, statistic = plan.parts_of(clf, columns, found)
        return Schema(columns, label, weight, found, unseen_labels, made, statistic)

    def model(
        self, *, alpha: float = 1.0, ridge: float = 0.0, class_alpha: float = 0.0
    ) -> Classifier:
        """Naive Bayes of these columns, as `genclf.sklearn.MixedNB` fits it.

        Args:
            alpha: smoothing of categories, counts and words, >= 0.
            ridge: fraction of a numeric column's pooled within-class variance that is added to its
                variance in each class, >= 0.
            class_alpha: smoothing of the class prior, >= 0.

        Returns:
            A `Classifier` of a `Product`; for a schema that was made without a model.
        """
        from genclf.stream import plan

        given = self.columns, len(self.classes)
        return plan.mixed_model(*given, alpha=alpha, ridge=ridge, class_alpha=class_alpha)

    def extend(self, batches: Batches, clf: Classifier | None = None) -> Schema:
        """A schema with the categories, words and classes that these rows have beside its own.

        New ones come after the old ones, in order. `Part.extend` brings parts that were made before
        into the form of the longer schema; merged with parts of later rows they are the sums of one
        pass with all values known.

        Args:
            batches: files or batches, as `genclf.stream.fit_batches` takes them.
            clf: the model with the longer lists, if the schema was made with a model.

        Raises:
            ValueError: a column is missing, has another type, or does not fit the model.

        Example:
            >>> import genclf as gcf
            >>> may = {"size": list("LSLS"), "y": [0, 1, 1, 0]}
            >>> june = {"size": list("MLSM"), "y": [1, 0, 1, 0]}
            >>> schema = gcf.Schema.of(None, may, "y")
            >>> longer = schema.extend(june)
            >>> longer.columns[0].values
            ('L', 'S', 'M')
            >>> before = gcf.partial(schema.model(), schema, may, part_id="may")
            >>> later = gcf.partial(longer.model(), longer, june, part_id="june")
            >>> whole = gcf.combine([before.extend(schema, longer), later])
            >>> whole.conditional["categorical"].total.tolist()
            [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0]]
        """
        from genclf.stream import plan

        tables = Reader().all_tables(batches)
        columns, classes = longer_lists(tables, self.columns, self.label, self.classes)
        if clf is None:
            names = {part.name for part in self.parts}
            mixed = plan.mixed_model(self.columns, len(self.classes))
            own = None in names or plan.parts_of(mixed, self.columns, self.classes)[0]
            if own != self.parts:
                raise ValueError("the schema was made with a model: give the longer one, as clf=")
            clf = plan.mixed_model(columns, len(classes))
        parts, statistic = plan.parts_of(clf, columns, classes)
        return replace(self, columns=columns, classes=classes, parts=parts, statistic=statistic)

    def relabel(self, to: Mapping[Value, Value | None]) -> Schema:
        """The schema of the same columns under other labels; `Part.relabel` moves the sums.

        Args:
            to: the new label of each class that has another one; None leaves it out. Labels that
                become equal are one class.

        Raises:
            ValueError: `to` names a class that there is not, leaves none, or gives classes of more
                than one type.

        Example:
            >>> import genclf as gcf
            >>> batch = {"x": [1.0, 2.0, 8.0], "y": ["cat", "dog", "emu"]}
            >>> schema = gcf.Schema.of(gcf.gaussian_nb(3), batch, label="y")
            >>> schema.relabel({"cat": "pet", "dog": "pet"}).classes
            ('pet', 'emu')
        """
        if strange := [label for label in to if label not in self.classes]:
            raise ValueError(
                f"to has the label {strange[0]!r}, expected some of the classes "
                f"{', '.join(map(repr, self.classes)):.200}"
            )
        new = [to.get(label, label) for label in self.classes]
        kept = dict.fromkeys(label for label in new if label is not None)
        if not kept:
            raise ValueError("to leaves out every class, expected a new label for one at least")
        return replace(self, classes=checked_values(kept, "the new classes"))

    def index_of(self, label: Value | None) -> int:
        """The number of a class; -1 for None."""
        return -1 if label is None else self.classes.index(label)

    def to_json(self) -> str:
        """The schema as text, the same for equal schemas."""
        return json_of(asdict(self), self.parts)

    @staticmethod
    def from_json(text: str) -> Schema:
        """The schema that `to_json` wrote."""
        try:
            return Schema(**fields_of(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"text is {text!r:.40}, expected what Schema.to_json wrote") from error

    @cached_property
    def digest(self) -> str:
        """A hash of the schema; parts with different digests cannot be added."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    @property
    def sources(self) -> list[str]:
        """The columns of a table that are read, without those of labels and weights."""
        return list(dict.fromkeys(column.source for column in self.columns))

    @property
    def names(self) -> list[str]:
        """The columns of a table that are read, with those of labels and weights."""
        others = [self.label] if self.weight is None else [self.label, self.weight]
        return self.sources + others

    @property
    def reader(self) -> Reader:
        """How the columns are read from files."""
        of = {STRINGS: "string", TRUTH: "bool_"}
        types = {c.source: STRINGS if c.kind == "text" else c.type for c in self.columns}
        types |= {c.source: STRINGS for c in self.columns if c.date_part}
        types[self.label] = type_of(self.classes[0])
        types = {name: of.get(own, "float64") for name, own in types.items()}
        codes = [column.source for column in self.columns if column.is_coded]
        types |= {} if self.weight is None else {self.weight: "float64"}
        return Reader(tuple(self.names), (*codes, self.label), types)

    @property
    def by_numpy(self) -> bool:
        """Whether NumPy can sum what the model sums."""
        return all(part.recipe is not None for part in self.parts)

    @property
    def num_values(self) -> tuple[int, ...]:
        """The number of values of each categorical column, including the one for unseen values."""
        return tuple(column.size for column in self.columns if column.is_coded)

    def read(
        self,
        table: ArrowTable | CellsOf,
        place: Place,
        labelled: bool = True,
        unlabelled: bool = False,
    ) -> Rows:
        """The rows of a table as arrays; raise for a cell that does not fit.

        Args:
            table: a table of Arrow, or the cells of its columns by name.
            place: its source and first row, for errors.
            labelled: whether to read labels and weights. Rows of weight 0 then do not count, and
                their cells may be anything of the type of the column.
            unlabelled: whether rows without a label count too.
        """
        return rows_in(self, table, place, labelled, unlabelled)

    def columns_of(self, part: str | None) -> list[Column]:
        """The columns that a part of the model reads."""
        return [column for column in self.columns if column.part == part]

    def sums(self, x: Any, rows: LabelledRows) -> dict[str | None, HostStats]:
        """What each part of the model sums over rows with labels."""
        found = {}
        for part in self.parts:
            if part.recipe is None:
                raise ValueError(
                    f"only JAX can sum {'this model' if part.name is None else repr(part.name)}"
                )
            found[part.name] = part.recipe(x if part.name is None else x[part.name], rows)
        return found

    def no_rows(self) -> Rows:
        """Arrays of no rows."""
        x = {part.name: no_cells(part, self.columns_of(part.name)) for part in self.parts}
        return Rows(x[None] if None in x else x, np.zeros(0, np.int64), None)
