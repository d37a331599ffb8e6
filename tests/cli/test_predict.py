"""`python -m genclf predict`: what it writes, beside the model itself, and how it says no."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import genclf as gcf
from genclf import sklearn as estimators
from genclf.cli.main import main


def table(n=97):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n) + 100,
            "size": rng.normal(3 * y, 1.0),
            "colour": np.array(["red", "green", "blue"])[(y + (rng.random(n) < 0.2)) % 3],
            "kind": np.array(["a", "b|c", "d"])[y],
        }
    )
    frame.loc[::11, ["size", "colour"]] = np.nan
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file, a model of compare, and estimators with and without p-values."""
    folder = tmp_path_factory.mktemp("predict")
    table().to_csv(folder / "rows.csv", index=False)
    features, labels = table()[["size", "colour"]], table()["kind"]
    mixed = estimators.MixedNB(conformal=True, calibrate="bias").fit(features, labels)
    gcf.save(folder / "mixed.genclf", mixed)
    gcf.save(folder / "plain.genclf", estimators.MixedNB().fit(features, labels))
    gcf.save(folder / "params.genclf", gcf.fit(gcf.lda(2), np.eye(2), np.array([0, 1])))
    return folder


def test_a_model_of_compare_is_saved_and_used(folder, capsys):
    model, given = str(folder / "best.genclf"), str(folder / "rows.csv")
    how = ["--label", "kind", "--drop", "id", "--folds", "3"]
    assert main(["compare", given, *how, "--save", model]) == 0
    assert "predict" in capsys.readouterr().out
    assert (
        main(["predict", model, given, "--output", str(folder / "out.csv"), "--alpha", ".1"]) == 0
    )
    best, found = gcf.load(model), pd.read_csv(folder / "out.csv", keep_default_na=False)
    p, typical = best.predict_proba(table()), best.typicality(table())
    assert (found["prediction"] == best.classes[p.argmax(1)]).all()
    assert (found["id"] == table()["id"]).all()
    sets = ["|".join(best.classes[row > 0.1]) for row in typical]
    assert (found["set"] == sets).all()
    for k, name in enumerate(best.classes):
        np.testing.assert_allclose(found[f"p({name})"], p[:, k], 1e-8, 1e-12)
        np.testing.assert_allclose(found[f"typicality({name})"], typical[:, k], 1e-8)
    captured = capsys.readouterr()
    none = int((~(typical > 0.1).any(1)).sum())
    assert captured.out == ""
    assert f"{none} of 97 rows are typical of no class (p <= 0.1 for all)" in captured.err


def test_an_estimator_reads_its_columns_and_prints(folder, capsys):
    assert main(["predict", str(folder / "mixed.genclf"), str(folder / "rows.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 98 and lines[0].startswith("id,size,colour,kind,prediction,p(a)")
    estimator = gcf.load(folder / "mixed.genclf")
    p = estimator.predict_proba(table()[["size", "colour"]])
    assert [line.split(",")[4] for line in lines[1:]] == estimator.classes_[p.argmax(1)].tolist()


def test_a_model_without_p_values_says_so(folder, capsys):
    assert main(["predict", str(folder / "plain.genclf"), str(folder / "rows.csv")]) == 0
    captured = capsys.readouterr()
    assert "typicality" not in captured.out
    assert "No p-values of membership" in captured.err and "conformal=True" in captured.err


def test_a_table_of_another_library(folder, capsys):
    polars = pytest.importorskip("polars")
    polars.from_pandas(table()).write_parquet(folder / "rows.parquet")
    assert main(["predict", str(folder / "mixed.genclf"), str(folder / "rows.parquet")]) == 0
    parquet = capsys.readouterr().out
    assert main(["predict", str(folder / "mixed.genclf"), str(folder / "rows.csv")]) == 0
    assert parquet == capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "rows", "message"),
    [
        ("none.genclf", "rows.csv", "none.genclf"),
        ("rows.csv", "rows.csv", "rows.csv"),
        ("params.genclf", "rows.csv", "holds ClassifierParams, expected the best model of compare"),
        ("mixed.genclf", "none.csv", "none.csv: no such file"),
        ("mixed.genclf", "short.csv", "has no column 'colour', which the model reads"),
        ("mixed.genclf", "twice.csv", "has a column 'prediction' already; rename it"),
        ("mixed.genclf", "words.csv", "size"),
    ],
)
def test_what_cannot_be_predicted(folder, capsys, model, rows, message):
    table()[["id", "size"]].to_csv(folder / "short.csv", index=False)
    table().assign(prediction=1).to_csv(folder / "twice.csv", index=False)
    table().assign(size="large").to_csv(folder / "words.csv", index=False)
    assert main(["predict", str(folder / model), str(folder / rows)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("genclf: error: ")
    assert message in captured.err and captured.err.count("\n") == 1


def test_files_to_be_written_are_checked_before_the_work(folder, capsys, monkeypatch):
    monkeypatch.setattr("genclf.cli.compare.compare", lambda *_, **__: pytest.fail("worked"))
    monkeypatch.setattr("genclf.cli.predict.load", lambda *_: pytest.fail("read"))
    rows, model = str(folder / "rows.csv"), str(folder / "mixed.genclf")
    compare = ["compare", rows, "--label", "kind"]
    predict = ["predict", model, rows]
    lacking = str(folder / "no" / "such")
    for arguments, message in [
        ([*compare, "--save", lacking], f"{lacking}: No such file or directory"),
        ([*compare, "--save", rows], f"{rows}: is read, so --save cannot write it"),
        ([*compare, "--html", str(folder)], f"{folder}: is a folder, expected the name of a file"),
        ([*predict, "--output", lacking], f"{lacking}: No such file or directory"),
        ([*predict, "--output", rows], f"{rows}: is read, so --output cannot write it"),
        ([*predict, "--output", model], f"{model}: is read, so --output cannot write it"),
    ]:
        assert main(arguments) == 2
        assert message in capsys.readouterr().err


def test_levels_and_folders_are_checked(folder, capsys):
    given = [str(folder / "mixed.genclf"), str(folder / "rows.csv")]
    with pytest.raises(SystemExit):
        main(["predict", *given, "--alpha", "2"])
    assert "'2' is not a number from 0 to 1" in capsys.readouterr().err
    assert main(["predict", *given, "--output", str(folder / "no" / "out.csv")]) == 2
    assert "out.csv" in capsys.readouterr().err


def test_a_reader_that_stops_early(folder):
    command = f"{sys.executable} -m genclf predict mixed.genclf rows.csv 2>err | head -1"
    found = subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True)
    assert found.stdout.startswith("id,size") and "Error" not in (folder / "err").read_text()
