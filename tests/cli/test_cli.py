"""The command line: what it prints on shipped data and on a file, and how it says no."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import BernoulliNB, MultinomialNB

import genclf as gcf
from genclf.cli.demo import three_roads
from genclf.cli.main import main
from genclf.cli.report import open_console
from genclf.cli.text_tables import parsed
from genclf.tables.frames import cells_of
from genclf.tables.held_out import held_out, stratified_folds
from genclf.tables.kinds import Reading
from genclf.tables.training_words import TrainingWords
from tests.processes import run

LINES = {
    "header.csv": "a,b,y\n",
    "empty.csv": "",
    "ragged.csv": "a,y\n1,p\n1,q,3,4\n",
    "wide.csv": "a,y\n1.5,p,7\n2.5,q,7\n",
    "one.csv": "a,y\n1,p\n2,p\n",
    "rare.csv": "a,y\n1.5,p\n2.5,p\n3.5,q\n",
    "constant.csv": "a,y\n1,p\n1,p\n1,q\n1,q\n",
    "alone.csv": "y\np\np\nq\nq\n",
    "unlabelled.csv": "a,y\n1,\n2,\n",
    "holes.csv": "a,b,y\n1.5,,p\n2.5,,p\n,3.5,q\n,4.5,q\n",
    "semicolon.csv": "a;y\n1;p\n2;q\n",
    "continuous.csv": "a,y\n" + "".join(f"{i % 7}.5,{i / 3}\n" for i in range(101)),
    "own.csv": "a,y\n" + "".join(f"{i % 7}.5,name{i}\n" for i in range(101)),
}
ERRORS = [
    ("missing.csv", "y", "missing.csv: no such file"),
    ("empty.csv", "y", "empty.csv: the file is empty"),
    ("header.csv", "y", "has a header but no rows"),
    ("ragged.csv", "y", "not a CSV file: the first line has 2 fields, but line 3 has 4"),
    ("wide.csv", "y", "the first line has 2 fields, but line 2 has 3"),
    ("bytes.csv", "y", "only one class, 'p'"),
    (".", "y", "is a directory"),
    ("one.csv", "Y1", "no column 'Y1'; did you mean 'y'? the columns are 'a', 'y'"),
    ("semicolon.csv", "y", "each of 2 classes has one usable row"),
    ("one.csv", "y", "only one class, 'p'"),
    ("rare.csv", "y", "class 'q' has one usable row"),
    ("rare.csv", "y", "1 other class is left"),
    ("constant.csv", "y", "no column can be used as a feature (a: constant)"),
    ("alone.csv", "y", "no column can be used as a feature (there is no other)"),
    ("unlabelled.csv", "y", "label 'y' is missing in every row"),
    ("continuous.csv", "y", "label 'y' has 101 different numbers in 101 rows: it looks continuous"),
    ("own.csv", "y", "label 'y' has 101 classes in 101 rows, too many"),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, content in LINES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "bytes.csv").write_bytes("a,y\nétude,p\n".encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def mixed(n=211):
    """A file with a column of every kind, some of them with holes."""
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, n)
    words = np.array(["alpha", "beta", "gamma", "delta"])
    likely = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.2, 0.6]])
    frame = pd.DataFrame(
        {
            "id": np.arange(1, n + 1),
            "code": [f"u{i}" for i in range(n)],
            "height": rng.normal(y, 1.0),
            "[red]weight": rng.normal(70 + 3 * y, 4.0),
            "rooms": rng.integers(0, 4, n),
            "member": rng.random(n) < 0.2 + 0.3 * y,
            "city": np.array(["Oslo", "Rome", "Lima"])[(y + rng.integers(0, 2, n)) % 3],
            "note": [" ".join(rng.choice(words, 6, p=likely[k])) for k in y],
            "same": "x",
            "sparse": np.where(np.arange(n) % 3 == 0, rng.normal(size=n), np.nan),
            "kind": np.array(["red", "green", "blue"])[y],
        }
    )
    frame.loc[5:9, "height"] = np.nan
    frame.loc[20:30, "city"] = None
    frame.loc[40, "note"] = None
    frame.loc[50, "kind"] = None
    return frame


@pytest.mark.parametrize(("file", "label", "message"), ERRORS)
def test_an_error_is_one_line_and_exit_code_2(folder, capsys, file, label, message):
    assert main(["compare", file, "--label", label]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("genclf: error: ") and err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    "option", [["--folds", "1"], ["--folds", "x"], ["--seed", "-1"], ["--sep", ",,"]]
)
def test_an_invalid_option_is_named(capsys, option):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "file.csv", "--label", "y", *option])
    assert f"argument {option[0]}: {option[1]!r} is not" in capsys.readouterr().err


def test_help_and_version(capsys):
    for arguments, expected in [
        (["--help"], "compare"),
        (["compare", "--help"], "--folds"),
        (["--version"], "genclf 0."),
    ]:
        with pytest.raises(SystemExit, match="0"):
            main(arguments)
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("package", ["pandas", "rich", "sklearn"])
def test_a_package_that_is_missing_is_named(monkeypatch, capsys, package):
    monkeypatch.setitem(sys.modules, package, None)
    assert main([]) == 2
    assert f'needs {package}: pip install "genclf[cli]"' in capsys.readouterr().err


def models_in(out):
    """The table of models in what compare prints."""
    return out.split("looks at")[1].split("Calibrated posteriors")[0]


@pytest.mark.slow
def test_compare_on_mixed_columns(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    mixed().to_csv("mixed.csv", index=False)
    assert main(["compare", "mixed.csv", "--label", "kind", "--folds", "5"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "Left out, without a label: 1 of 211 rows." in out
    assert "210 rows; label kind" in out
    kinds = {
        line.split()[0]: line.split()[1]
        for line in out.split("what it holds")[1].splitlines()[2:15]
        if line
    }
    assert kinds["id"] == kinds["code"] == kinds["same"] == "drop"
    assert kinds["height"] == kinds["[red]weight"] == kinds["sparse"] == "numeric"
    assert kinds["rooms"] == kinds["city"] == "categorical"
    assert kinds["member"] == "binary"
    assert kinds["note"] == "text"

    ranked = models_in(out).splitlines()[2:]
    names = [line.split("  ")[0] for line in ranked if line]
    assert names[0] == "mixed naive Bayes"
    assert names[-1] == "class prior (baseline)"
    assert sorted(names[1:-1]) == [
        "Bernoulli naive Bayes",
        "Gaussian naive Bayes",
        "LDA",
        "QDA",
        "categorical naive Bayes",
        "multinomial naive Bayes",
        "softmax on naive Bayes (baseline)",
        "softmax regression (baseline)",
    ]


@pytest.mark.slow
def test_a_singular_covariance_is_reported_and_tried_with_a_ridge(folder, capsys):
    frame = mixed()[["height", "[red]weight", "kind"]].dropna(subset="height")
    frame["sum"] = frame["height"] + frame["[red]weight"]
    frame.to_csv("singular.csv", index=False)
    assert main(["compare", "singular.csv", "--label", "kind", "--folds", "3"]) == 0
    rows = [line.split() for line in models_in(capsys.readouterr().out).splitlines()]
    assert ["LDA", "3", "numeric", "singular"] in rows
    assert ["QDA", "3", "numeric", "singular"] in rows
    assert sum(row[:3] == ["LDA,", "ridge", "0.001"] for row in rows) == 1


@pytest.mark.slow
def test_missing_numbers_are_integrated_out_and_a_singular_fit_is_tried_with_a_prior(
    folder, capsys
):
    frame = mixed()[["height", "[red]weight", "kind"]]
    frame["sum"] = frame["height"] + frame["[red]weight"]
    frame.to_csv("holes.csv", index=False)
    assert main(["compare", "holes.csv", "--label", "kind", "--folds", "3"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["LDA", "3", "numeric", "singular"] in rows
    assert ["QDA", "3", "numeric", "singular"] in rows
    scored = {" ".join(row[:2]): row[4:] for row in rows if row[2:4] == ["3", "numeric"]}
    assert {"LDA, prior", "QDA, prior"} <= scored.keys()
    assert all(float(scores[0]) < 1 for scores in scored.values())


@pytest.mark.slow
def test_a_rare_class_leaves_the_folds_as_they_were(folder, capsys):
    kind = [*["rare"] * 3, "single", *["often", "else"] * 40]
    mixed()[["city"]][: len(kind)].assign(kind=kind).to_csv("few.csv", index=False)
    assert main(["compare", "few.csv", "--label", "kind"]) == 0
    printed = capsys.readouterr().out
    out = " ".join(printed.split())
    assert "83 rows; label kind" in out
    assert "Left out, classes of one row, which cannot be both learned and tested: single." in out
    assert "Models, 10-fold cross-validation" in out
    assert "Fewer rows than folds: rare 3." in out
    assert "inf" not in models_in(printed)


@pytest.mark.slow
def test_other_separators(folder, capsys):
    mixed()[["city", "kind"]].to_csv("tabs.tsv", sep="\t", index=False)
    assert main(["compare", "tabs.tsv", "--label", "kind", "--folds", "3", "--sep", r"\t"]) == 0
    assert "categorical naive Bayes" in capsys.readouterr().out


def test_kinds_of_columns():
    n = 24
    frame = pd.DataFrame(
        {
            "few whole": [0.0, 1.0, 2.0] * 8,
            "few whole, a hole": [0.0, 1.0, np.nan] * 8,
            "two whole": [3, 7] * 12,
            "few fractions": [0.5, 1.5, 2.5] * 8,
            "many whole": [i**2 for i in range(n)],
            "numbers rows": range(5, n + 5),
            "two strings": ["yes", "no"] * 12,
            "one string, a hole": ["yes", None] * 12,
            "names": [f"name{i}" for i in range(n)],
            "texts": [f"all texts differ: {i}" for i in range(n)],
            "phrases": ["so very few of them", "and all long"] * 12,
            "signs": [f"{'!' * i} ? ?" for i in range(1, n + 1)],
        }
    )
    written = parsed(frame.to_csv(index=False), ",", True, "", ("",)).columns
    for table in (frame, written):
        cells = cells_of(table, "table")
        kinds = {column.name: column.kind for column in Reading().of_table(cells, None)}
        assert kinds == KINDS


KINDS = {
    "few whole": "categorical",
    "few whole, a hole": "binary",
    "two whole": "binary",
    "few fractions": "numeric",
    "many whole": "numeric",
    "numbers rows": "drop",
    "two strings": "binary",
    "one string, a hole": "drop",
    "names": "drop",
    "texts": "text",
    "phrases": "binary",
    "signs": "drop",
}


@pytest.mark.parametrize("beside", ["", "-5"])
def test_large_whole_numbers_stay_apart(beside):
    large = [str(2**53), str(2**53 + 1), "1" * 30 + "2", "1" * 30 + "3"]
    text = "\n".join(["a,b", *(f"{cell},x" for cell in [*large, beside])])
    values, code = cells_of(parsed(text, ",", True, "", ("",)).columns, "table")["a"].encoded()
    assert [str(values[i]) for i in code[:4]] == large
    assert code[4] == (-1 if not beside else values.index(-5))


@pytest.mark.slow
def test_cross_validation_is_a_loop_of_fits(x64):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, 101)
    x = rng.normal(y[:, None], 1.0, (101, 5))
    clf = gcf.qda(3)
    scores = held_out(clf, x, y, stratified_folds(y, 7, seed=1))
    folds = StratifiedKFold(7, shuffle=True, random_state=1).split(x, y)
    for f, (train, test) in enumerate(folds):
        params = gcf.fit(clf, x[train], y[train])
        log_p = np.asarray(gcf.log_posterior(params, x[test]))[np.arange(len(test)), y[test]]
        right = np.asarray(gcf.predict(params, x[test])) == y[test]
        np.testing.assert_allclose(scores.log_loss[f], -log_p.mean(), rtol=1e-12)
        np.testing.assert_allclose(scores.accuracy[f], right.mean(), rtol=1e-12)
        assert scores.fold_sizes[f] == len(test)
    assert not scores.singular.any()


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_missing_cells_are_a_fit_by_em_in_each_fold(x64, shared):
    rng = np.random.default_rng(6)
    y = rng.integers(0, 2, 71)
    x = rng.normal(y[:, None], 1.0, (71, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    clf = gcf.Classifier(gcf.Gaussian(shared=shared, missing="marginalize"), 2)
    scores = held_out(clf, x, y, stratified_folds(y, 5, seed=2))
    assert not scores.singular.any() and scores.converged.all()
    folds = StratifiedKFold(5, shuffle=True, random_state=2).split(x, y)
    for f, (train, test) in enumerate(folds):
        params = gcf.fit(clf, x[train], y[train])
        log_p = np.asarray(gcf.log_posterior(params, x[test]))[np.arange(len(test)), y[test]]
        np.testing.assert_allclose(scores.log_loss[f], -log_p.mean(), rtol=1e-9)


@pytest.mark.slow
def test_a_covariance_of_few_rows_with_missing_cells_is_singular(x64):
    rng = np.random.default_rng(7)
    y = np.array([0] * 20 + [1] * 5)
    x = rng.normal(y[:, None], 1.0, (25, 7))
    x[::3, 2] = np.nan
    folds = stratified_folds(y, 5, seed=0)
    for prior, singular in [(None, True), (gcf.NormalInverseWishart(), False)]:
        clf = gcf.Classifier(gcf.Gaussian(missing="marginalize", prior=prior), 2)
        scores = held_out(clf, x, y, folds)
        assert scores.singular.any() == singular
    assert np.isfinite(scores.log_loss).all()


@pytest.mark.parametrize(
    ("family", "peer", "binary"),
    [
        (gcf.Multinomial(), MultinomialNB(), False),
        (gcf.Multinomial(presence=True), MultinomialNB(), True),
        (gcf.Bernoulli(threshold=0.0), BernoulliNB(), False),
    ],
)
def test_the_vocabulary_is_that_of_the_training_texts(x64, family, peer, binary):
    rng = np.random.default_rng(4)
    # Zipf's law: many words occur in one text only, so every fold has words of its own.
    texts = [" ".join(f"w{j}" for j in rng.zipf(1.5, 11)) for _ in range(53)]
    y = rng.integers(0, 2, 53)
    counts = gcf.text.learn_vocabulary(texts).counts(texts, dtype=np.float64).toarray()
    clf = gcf.Classifier(TrainingWords(family), num_classes=2)
    scores = held_out(clf, counts, y, stratified_folds(y, 5, seed=0))
    folds = StratifiedKFold(5, shuffle=True, random_state=0).split(texts, y)
    for f, (train, test) in enumerate(folds):
        vectorizer = CountVectorizer(binary=binary).fit([texts[i] for i in train])
        learned, others = (vectorizer.transform([texts[i] for i in s]) for s in (train, test))
        log_p = peer.fit(learned, y[train]).predict_log_proba(others)
        loss = -log_p[np.arange(len(test)), y[test]].mean()
        np.testing.assert_allclose(scores.log_loss[f], loss, rtol=1e-10)
        assert len(vectorizer.vocabulary_) < counts.shape[1]


def test_impossible_rows_are_infinite_and_undecided():
    x = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [1, 1], [1, 0]])
    y = np.array([0, 0, 1, 1, 0, 0])
    clf = gcf.multinomial_nb(2, alpha=0.0)
    scores = held_out(clf, x, y, stratified_folds(y, 2, seed=0))
    assert scores.undecided.sum() > 0
    assert scores.overall("log_loss") == np.inf
    assert np.isnan(scores.error("log_loss"))
    assert scores.impossible == 1


@pytest.mark.slow
def test_three_roads_meet(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    three_roads(open_console())
    rows = {line[:11].strip(): line[11:].split() for line in capsys.readouterr().out.splitlines()}
    # The log-likelihoods that scipy.stats.norm and counting give, and the numbers of rows.
    assert rows["Gaussian NB"][:3] == ["-5448.99"] * 3
    assert rows["alpha 0"][:3] == ["-4846.71"] * 3
    for name, multiplier in [
        ("Gaussian NB", "528.00/528"),
        ("categorical", "435.00/435"),
        ("alpha 0", "435.00/435"),
    ]:
        assert rows[name][4:] == [multiplier, "yes"]
        assert len(set(rows[name][:3])) == 1
        assert float(rows[name][3]) < 1e-8


@pytest.mark.slow
def test_the_demo_prints_the_known_numbers(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    rows = [line.split() for line in out.splitlines()]
    # The book's table, and exact counts of errors.
    assert ["LDA", "0.32", "0.32", "167/528", "0.56", "0.56", "257/462"] in rows
    assert ["QDA", "0.01", "0.01", "6/528", "0.53", "0.53", "244/462"] in rows
    assert ["Gaussian", "NB", "0.28", "148/528", "0.54", "249/462"] in rows
    # scikit-learn 1.9.1 on the same folds: CountVectorizer in the pipeline, and (last) before it.
    found = {(row[0], row[1]): (row[2], row[-1]) for row in rows if len(row) == 7}
    assert found["multinomial", "1"] == ("0.9869", "0.9815")
    assert found["Bernoulli", "1"] == ("0.9794", "0.9821")
    assert found["presence", "1"][0] == "0.9867"
    assert ["always", "ham", "0.8660", "0.8660"] in rows
    assert "claim" in out and "physician-fee-freeze" in out
    assert ["Gaussian", "NB", *["-5448.99"] * 3] in [row[:5] for row in rows]
    assert out.count("\nspam  ") == out.count("\nham  ") == 3


@pytest.mark.slow
def test_running_the_module_needs_no_extra_for_help():
    program = (
        "import sys, runpy; sys.modules.update(rich=None, pandas=None, sklearn=None); "
        "sys.argv = ['genclf', '--help']; runpy.run_module('genclf', run_name='__main__')"
    )
    done = run(program)
    assert done.returncode == 0, done.stderr
    assert "compare" in done.stdout
