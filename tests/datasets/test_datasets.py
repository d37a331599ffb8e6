"""The shipped data are the published data: checksums, counts, and a few rows read by hand."""

import gzip
import hashlib
import re
import zipfile
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

import genclf.datasets
from genclf.datasets import load_house_votes, load_mushroom, load_sms_spam, load_vowel
from tests.processes import run

DATA = resources.files(genclf.datasets) / "data"
ATTRIBUTION = (DATA / "ATTRIBUTION.md").read_text("utf-8")
TABLE = re.findall(r"^\| `(.+?)` \| (\d+) \| `([0-9a-f]{64})` \|$", ATTRIBUTION, re.MULTILINE)


def test_every_file_is_in_the_table():
    shipped = {file.name for file in DATA.iterdir()}
    assert shipped == {name for name, _, _ in TABLE} | {"ATTRIBUTION.md"}


@pytest.mark.slow(
    "house-votes-84.data.gz-18171-c87c14110a5ba91d4a1e313ec7392824458152bf071fa5f5452340488337936e"
)
@pytest.mark.parametrize(("name", "size", "sha256"), TABLE)
def test_checksums(name, size, sha256):
    content = (DATA / name).read_bytes()
    if name.endswith(".gz"):
        content = gzip.decompress(content)
    assert len(content) == int(size)
    assert hashlib.sha256(content).hexdigest() == sha256


def test_checksums_of_the_originals():
    # Written out once more: the table above is checked against itself.
    assert {name: sha256 for name, _, sha256 in TABLE} == {
        "SMSSpamCollection.txt.gz": (
            "7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d"
        ),
        "SMSSpamCollection-readme.txt": (
            "f33966c73b4cd0b28b0bfde7e3f0f196b71ff48e36cd5b2f690c9c40b6eb5b81"
        ),
        "vowel.train.csv.gz": "7b4a56b00dd28b4df06cfb2f9f1d5699ea35fe2e9e51063c5d11decd5a3b419f",
        "vowel.test.csv.gz": "837c407dfeeb052626d673822ed354f3a4fc67f2bc529c6a193533a0806ed85b",
        "house-votes-84.data.gz": (
            "c87c14110a5ba91d4a1e313ec7392824458152bf071fa5f5452340488337936e"
        ),
        "agaricus-lepiota.data.gz": (
            "e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e"
        ),
    }


def test_sms_spam():
    sms = load_sms_spam()
    assert sms.class_names == ("ham", "spam")
    assert len(sms.texts) == 5574 and all(type(text) is str for text in sms.texts)
    assert sms.y.dtype == np.int32 and sms.y.shape == (5574,)
    assert np.bincount(sms.y).tolist() == [4827, 747]
    # Quotes, commas and non-ASCII characters come through as they are.
    assert sms.texts[2].startswith("Free entry in 2 a wkly comp") and sms.y[2] == 1
    assert sms.texts[-1] == "Rofl. Its true to its name"
    assert sum("£" in text for text in sms.texts) > 200
    assert sum('"' in text for text in sms.texts) > 100
    assert not any("\n" in text or "\t" in text for text in sms.texts)
    assert 5574 - len(set(zip(sms.texts, sms.y.tolist(), strict=True))) == 403


def test_vowel():
    vowel = load_vowel()
    assert vowel.x_train.shape == (528, 10) and vowel.x_test.shape == (462, 10)
    assert vowel.x_train.dtype == vowel.x_test.dtype == np.float64
    assert vowel.y_train.dtype == vowel.y_test.dtype == np.int32
    assert np.bincount(vowel.y_train).tolist() == [48] * 11
    assert np.bincount(vowel.y_test).tolist() == [42] * 11
    assert vowel.feature_names == tuple(f"x.{j}" for j in range(1, 11))
    assert vowel.class_names == (
        "heed", "hid", "head", "had", "hard", "hud", "hod", "hoard", "hood", "who'd", "heard",
    )  # fmt: skip
    first = [-3.639, 0.418, -0.67, 1.779, -0.168, 1.627, -0.388, 0.529, -0.874, -0.814]
    assert vowel.x_train[0].tolist() == first
    assert vowel.y_train[:3].tolist() == [0, 1, 2]
    assert vowel.x_train.flags.c_contiguous and vowel.x_train.flags.owndata


def test_vowel_is_the_split_of_the_book():
    discriminant_analysis = pytest.importorskip("sklearn.discriminant_analysis")
    vowel = load_vowel()
    lda = discriminant_analysis.LinearDiscriminantAnalysis().fit(vowel.x_train, vowel.y_train)
    assert (lda.predict(vowel.x_train) != vowel.y_train).sum() == 167
    assert (lda.predict(vowel.x_test) != vowel.y_test).sum() == 257


def test_house_votes():
    votes = load_house_votes()
    assert votes.x.shape == (435, 16) and votes.y.shape == (435,)
    assert votes.x.dtype == votes.y.dtype == np.int32
    assert votes.class_names == ("democrat", "republican")
    assert votes.value_names == ("n", "y", "?")
    assert np.bincount(votes.y).tolist() == [267, 168]
    assert len(votes.feature_names) == len(set(votes.feature_names)) == 16
    documented = [12, 48, 11, 11, 15, 11, 14, 15, 22, 7, 21, 31, 25, 17, 28, 104]
    assert (votes.x == 2).sum(axis=0).tolist() == documented
    assert (votes.x == 2).any(axis=1).sum() == 203
    # republican,n,y,n,y,y,y,n,n,n,y,?,y,y,y,n,y
    assert votes.x[0].tolist() == [0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 2, 1, 1, 1, 0, 1]
    # 163 of 165 voting republicans and 14 of 259 voting democrats froze the physicians' fees.
    freeze = votes.x[:, votes.feature_names.index("physician-fee-freeze")]
    assert (freeze[votes.y == 1] == 1).sum() == 163 and (freeze[votes.y == 0] == 1).sum() == 14


def test_mushroom():
    mushroom = load_mushroom()
    assert mushroom.x.shape == (8124, 22) and mushroom.y.shape == (8124,)
    assert mushroom.x.dtype == mushroom.y.dtype == np.int32
    assert mushroom.class_names == ("edible", "poisonous")
    assert np.bincount(mushroom.y).tolist() == [4208, 3916]
    assert len(mushroom.feature_names) == len(set(mushroom.feature_names)) == 22
    documented = [6, 4, 10, 2, 9, 4, 3, 2, 12, 2, 6, 4, 4, 9, 9, 2, 4, 3, 8, 9, 6, 7]
    assert [len(set(names)) for names in mushroom.value_names] == documented
    assert (mushroom.x < np.array(documented)).all() and mushroom.x.min() == -1
    # p,x,s,n,t,p,f,c,n,k,e,e,s,s,w,w,p,w,o,p,k,s,u
    assert mushroom.class_names[mushroom.y[0]] == "poisonous"
    names = zip(mushroom.value_names, mushroom.x[0], strict=True)
    assert [values[code] for values, code in names] == [
        "convex", "smooth", "brown", "bruises", "pungent", "free", "close", "narrow", "black",
        "enlarging", "equal", "smooth", "smooth", "white", "white", "partial", "white", "one",
        "pendant", "black", "scattered", "urban",
    ]  # fmt: skip
    missing = dict(zip(mushroom.feature_names, (mushroom.x == -1).sum(axis=0), strict=True))
    assert missing.pop("stalk-root") == 2480 and not any(missing.values())
    constant = (mushroom.x == mushroom.x[:1]).all(axis=0)
    assert [mushroom.feature_names[j] for j in constant.nonzero()[0]] == ["veil-type"]


def test_mushroom_obeys_the_documented_rules():
    """The rules of Duch et al. (1997) and the poisonous rows they miss, from the documentation."""
    mushroom = load_mushroom()

    def has(feature, *values):
        j = mushroom.feature_names.index(feature)
        return np.isin(mushroom.x[:, j], [mushroom.value_names[j].index(v) for v in values])

    rules = [
        ~has("odor", "almond", "anise", "none"),
        has("spore-print-color", "green"),
        has("odor", "none")
        & has("stalk-surface-below-ring", "scaly")
        & ~has("stalk-color-above-ring", "brown"),
        has("habitat", "leaves") & has("cap-color", "white"),
    ]
    poisonous = np.logical_or.accumulate(rules)
    assert not poisonous[:, mushroom.y == 0].any()
    assert (~poisonous[:, mushroom.y == 1]).sum(axis=1).tolist() == [120, 48, 8, 0]


@pytest.mark.parametrize("load", [load_sms_spam, load_vowel, load_house_votes, load_mushroom])
def test_every_call_gives_fresh_arrays(load):
    first, second = load(), load()
    for a, b in zip(first, second, strict=True):
        if isinstance(a, np.ndarray):
            assert a.flags.writeable and not np.shares_memory(a, b)
            np.testing.assert_array_equal(a, b)


def test_loads_from_a_zip(tmp_path):
    package = Path(str(resources.files(genclf.datasets)))
    archive = tmp_path / "genclf.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("genclf/__init__.py", "")
        used = [path for path in package.parent.rglob("*.py") if path.parent != package.parent]
        used.append(package.parent / "discretize.py")
        for path in [*used, *(package / "data").iterdir()]:
            file.write(path, Path("genclf", path.relative_to(package.parent)).as_posix())
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from genclf.datasets import load_house_votes, load_mushroom, load_sms_spam, load_vowel;"
        "print(len(load_sms_spam().y), len(load_vowel().y_test), len(load_house_votes().y),"
        " len(load_mushroom().y));"
        "print([name for name in ('sklearn', 'pandas') if name in sys.modules])"
    )
    done = run(program, str(archive), cwd=tmp_path, check=True)
    assert done.stdout.split("\n")[:2] == ["5574 462 435 8124", "[]"]
