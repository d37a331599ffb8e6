"""`compare --html` writes one page that a browser shows without the network."""

import base64
import re
import shutil
import subprocess
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.feather
import pytest

import genclf as gcf
import genclf.tables.comparison
from genclf.cli import page as pages
from genclf.cli.files import InputError, read_table
from genclf.cli.main import main

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
EVIL = "<script>alert('x')</script>"
ROWS = (1 + 7) + (1 + 6) + (1 + 3)  # of scores, of calibrated posteriors, of columns


def table(n=101):
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, n)
    words = np.array(["win", "cash", "see", "you"])
    likely = np.array([[0.4, 0.1, 0.1, 0.4], [0.1, 0.1, 0.1, 0.7]])
    return pd.DataFrame(
        {
            "height": rng.normal(2.0 * y, 1.0),
            EVIL: np.where(rng.random(n) < 0.3 + 0.4 * y, "red", "blue"),
            "note": [f"u{i} " + " ".join(rng.choice(words, 4, p=likely[k])) for i, k in enumerate(y)],  # noqa: E501
            "kind": np.where(y, "<b>dog</b>", "cat & co"),
        }
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The path of a report on texts, categories and numbers; all models but LDA and QDA."""
    folder = tmp_path_factory.mktemp("report")
    table().to_csv(folder / "in.csv", index=False)
    every = genclf.tables.comparison.candidates
    with pytest.MonkeyPatch.context() as patch:
        few = lambda *given: [c for c in every(*given) if c.name[1:] != "DA"]  # noqa: E731
        patch.setattr(genclf.tables.comparison, "candidates", few)
        path = str(folder / "out.html")
        arguments = ["--label", "kind", "--folds", "3", "--html", path]
        assert main(["compare", str(folder / "in.csv"), *arguments]) == 0
    return folder / "out.html"


def test_the_page_holds_everything_and_nothing_foreign(page):
    text = page.read_text()
    for part in ("mixed naive Bayes", "class prior (baseline)", "3-fold", "validate found nothing"):
        assert part in text
    assert EVIL not in text and "<b>dog" not in text and "&lt;b&gt;dog" in text
    assert not re.search(r"<script|<link[^>]+http|(src|href)=.?https?:", text)
    assert text.count("<tr") == ROWS
    figures = dict(re.findall(r'<img id="([^"]+)".*?base64,([^"]+)"', text))
    assert {*figures} == {"reliability", "confusion", "evidence", "words of note"}
    for source in figures.values():
        drawing = ElementTree.fromstring(base64.b64decode(source))
        assert drawing.tag.endswith("svg") and len(list(drawing.iter())) > 50


@pytest.mark.skipif(not BROWSER, reason="needs Chromium")
def test_a_browser_shows_it_without_an_error(page, tmp_path):
    check = (
        "<script>onload=()=>document.body.dataset.drawn="
        "[...document.images].filter(i=>i.complete&&i.naturalWidth>100).length</script></body>"
    )
    seen = tmp_path / "seen.html"
    seen.write_text(page.read_text().replace("</body>", check))
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
         f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND",
         "--dump-dom", seen.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr
    assert 'data-drawn="4"' in done.stdout
    assert done.stdout.count("<tr") == ROWS


def test_a_page_that_cannot_be_written(tmp_path, capsys, monkeypatch):
    every = genclf.tables.comparison.candidates
    monkeypatch.setattr(genclf.tables.comparison, "candidates", lambda *given: every(*given)[:1])
    for name in ("on_columns", "on_terms"):
        monkeypatch.setattr(genclf.tables.comparison, name, lambda *given: [])
    table().to_csv(tmp_path / "in.csv", index=False)
    arguments = ["--label", "kind", "--folds", "2", "--html", str(tmp_path / "no" / "out.html")]
    assert main(["compare", str(tmp_path / "in.csv"), *arguments]) == 2
    assert "out.html: No such file or directory" in capsys.readouterr().err


@pytest.mark.slow
def test_held_out_posteriors_are_those_of_the_scores():
    found = gcf.compare(table()[["height", "kind"]], label="kind", num_folds=3)
    loss = -found.log_posterior[np.arange(len(found.y)), found.y].mean()
    np.testing.assert_allclose(loss, found.models[0].log_loss, rtol=0.02)  # folds differ by a row
    names = np.array(list(found.shares))
    np.testing.assert_array_equal(names[found.y], table()["kind"][found.rows])


@pytest.mark.slow
def test_terms_of_columns_add_up():
    data = table()
    found = gcf.compare(data, label="kind", num_folds=2).best
    rows = data[:11]
    log_p = np.sort(found.log_posterior(rows), 1)
    terms = found.explain(rows)
    assert terms.features.shape == (11, len(found.columns))
    np.testing.assert_allclose(terms.log_odds, log_p[:, 1] - log_p[:, 0], rtol=1e-9)
    turned = found.explain(rows, of="cat & co")
    np.testing.assert_allclose(np.abs(turned.log_odds), terms.log_odds, rtol=1e-9)
    with pytest.raises(ValueError, match="of is 'x', expected one of"):
        found.explain(rows, of="x")


def test_bars_of_columns_are_means():
    terms = np.array([[1.0, -4, 0], [-3, np.inf, 1], [2, 2, -2]])
    found = gcf.Explanation(
        np.ones(3, int), np.zeros(3, int), terms, np.zeros(3), feature_names=["a", "b", "c"]
    )
    ax = pages._evidence(found)
    width = {
        t.get_text(): p.get_width() for t, p in zip(ax.get_yticklabels(), ax.patches, strict=True)
    }
    assert width == {"a": 2, "b": 2, "c": 1}


@pytest.mark.parametrize("polars", [True, False])
@pytest.mark.parametrize("name", ["t.parquet", "t.PQ", "t.feather", "t.arrow"])
def test_binary_tables_keep_their_types(name, polars, tmp_path, monkeypatch):
    data, path = pl.from_pandas(table()), str(tmp_path / name)
    if "p" in name.lower()[2:]:
        data.write_parquet(path)
    else:
        pyarrow.feather.write_feather(data.to_arrow(), path)
    if not polars:
        monkeypatch.setattr("genclf.cli.files.find_spec", lambda name: name != "polars" or None)
    found = read_table(path, "kind").columns
    assert isinstance(found, pl.DataFrame) == polars
    assert pl.DataFrame(found).equals(data)


def test_binary_tables_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match=r"t\.parquet: "):
        read_table(str(tmp_path / "t.parquet"), "kind")
    monkeypatch.setattr("genclf.cli.files.find_spec", lambda name: None)
    with pytest.raises(InputError, match="a parquet file needs polars or pyarrow"):
        read_table(str(tmp_path / "t.parquet"), "kind")


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz", "t.tab"])
def test_tabs_by_the_name_of_the_file(name, tmp_path):
    table().to_csv(tmp_path / name, index=False, sep="\t")
    assert list(read_table(str(tmp_path / name), "kind").columns) == list(table())
