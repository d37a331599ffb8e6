"""Four small data sets that ship with the package, and one that is simulated.

Each loader reads files beside this module and returns fresh NumPy arrays: nothing is downloaded,
and nothing is cached. Sources, authors, terms and checksums are in `data/ATTRIBUTION.md`.
"""

import gzip
import io
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from genclf.datasets.waveform import sample_waveform, waveform_log_joint

__all__ = [
    "HouseVotes",
    "Mushroom",
    "SmsSpam",
    "Vowel",
    "load_house_votes",
    "load_mushroom",
    "load_sms_spam",
    "load_vowel",
    "sample_waveform",
    "waveform_log_joint",
]


class SmsSpam(NamedTuple):
    """Text messages, legitimate or spam: n = 5574, K = 2. See `load_sms_spam`.

    Attributes:
        texts: the n raw messages, in the order of the corpus.
        y: `(n,)` int32, an index into `class_names`.
        class_names: `("ham", "spam")`.
    """

    texts: list[str]
    y: NDArray[np.int32]
    class_names: tuple[str, ...]


class Vowel(NamedTuple):
    """Spoken vowels of British English: d = 10, K = 11, split by speaker. See `load_vowel`.

    Attributes:
        x_train: `(528, d)` float64, log area ratios of speakers 1 to 8.
        y_train: `(528,)` int32, an index into `class_names`; 48 examples of each class.
        x_test: `(462, d)` float64, log area ratios of speakers 9 to 15.
        y_test: `(462,)` int32; 42 examples of each class.
        feature_names: `("x.1", ..., "x.10")`.
        class_names: the word each vowel was spoken in, `("heed", "hid", ..., "heard")`.
    """

    x_train: NDArray[np.float64]
    y_train: NDArray[np.int32]
    x_test: NDArray[np.float64]
    y_test: NDArray[np.int32]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]


class HouseVotes(NamedTuple):
    """Votes of the U.S. House of Representatives: n = 435, d = 16, V = 3. See `load_house_votes`.

    Attributes:
        x: `(n, d)` int32, an index into `value_names`.
        y: `(n,)` int32, an index into `class_names`.
        feature_names: the d issues voted on.
        class_names: `("democrat", "republican")`.
        value_names: `("n", "y", "?")`.
    """

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    value_names: tuple[str, ...]


class Mushroom(NamedTuple):
    """Gilled mushrooms, edible or poisonous: n = 8124, d = 22, V = 2..12. See `load_mushroom`.

    Attributes:
        x: `(n, d)` int32, column j an index into `value_names[j]`; -1 where it is missing.
        y: `(n,)` int32, an index into `class_names`.
        feature_names: the d things observed, `("cap-shape", ..., "habitat")`.
        class_names: `("edible", "poisonous")`.
        value_names: d tuples, the values that each column is documented to take.
    """

    x: NDArray[np.int32]
    y: NDArray[np.int32]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    value_names: tuple[tuple[str, ...], ...]


def load_sms_spam() -> SmsSpam:
    """The SMS Spam Collection v.1: 5,574 English text messages, 4,827 ham and 747 spam.

    There is no official split. 403 lines repeat an earlier one, so a random split puts some
    messages on both sides.

    Returns:
        The raw texts, the labels, and the names of the classes.

    Example:
        >>> from genclf.datasets import load_sms_spam
        >>> sms = load_sms_spam()
        >>> sms.class_names[sms.y[1]], sms.texts[1]
        ('ham', 'Ok lar... Joking wif u oni...')
        >>> [int((sms.y == k).sum()) for k in (0, 1)]
        [4827, 747]

    References:
        Almeida, Gómez Hidalgo, Yamakami (2011), "Contributions to the study of SMS spam filtering:
        new collection and results", ACM Symposium on Document Engineering.
    """
    class_names = ("ham", "spam")
    # Lines end with "\n" only: `splitlines` would split at ten other characters too, and `csv`
    # would drop quotes.
    lines = _read("SMSSpamCollection.txt.gz").rstrip("\n").split("\n")
    labels, texts = zip(*(line.split("\t", maxsplit=1) for line in lines), strict=True)
    return SmsSpam(list(texts), _codes(labels, class_names), class_names)


def load_vowel() -> Vowel:
    """The Deterding vowel data, split as in "The Elements of Statistical Learning": 528 + 462.

    Fifteen speakers said each of eleven vowels six times; an example is ten log area ratios,
    computed by linear prediction. The test speakers are not among the training speakers, so test
    errors are high: the book's Table 4.1 gives 0.32 (train) and 0.56 (test) for LDA, 0.01 and 0.53
    for QDA.

    Returns:
        Training and test arrays, the names of the features, and the names of the classes.

    Example:
        >>> from genclf.datasets import load_vowel
        >>> vowel = load_vowel()
        >>> vowel.x_train.shape, vowel.x_test.shape
        ((528, 10), (462, 10))
        >>> vowel.class_names[vowel.y_train[0]], vowel.x_train[0, :3].tolist()
        ('heed', [-3.639, 0.418, -0.67])

    References:
        Deterding (1989), "Speaker normalisation for automatic speech recognition", PhD thesis,
        University of Cambridge.
        Hastie, Tibshirani, Friedman (2009), "The Elements of Statistical Learning", section 4.3.
    """
    # The vowels i I E A a: Y O C: U u: 3:, classes 1 to 11 in the file.
    words = "heed hid head had hard hud hod hoard hood who'd heard"
    train, test = (
        np.loadtxt(io.StringIO(_read(f"vowel.{part}.csv.gz")), delimiter=",", skiprows=1)
        for part in ("train", "test")
    )
    return Vowel(
        # Column 0 numbers the rows, column 1 is the class.
        x_train=train[:, 2:].copy(),
        y_train=train[:, 1].astype(np.int32) - 1,
        x_test=test[:, 2:].copy(),
        y_test=test[:, 1].astype(np.int32) - 1,
        feature_names=tuple(f"x.{j}" for j in range(1, 11)),
        class_names=tuple(words.split()),
    )


def load_house_votes() -> HouseVotes:
    """The 1984 U.S. congressional voting records: 435 members, 16 key votes, 2 parties.

    "?" means neither yea nor nay: the member abstained, or did not make a position known. No value
    was lost, so "?" is a third value here; to treat it as missing, select it with `x == 2`.

    Returns:
        The votes as codes, the parties, and the names of the issues, the parties and the values.

    Example:
        >>> from genclf.datasets import load_house_votes
        >>> votes = load_house_votes()
        >>> votes.class_names[votes.y[0]], votes.feature_names[3], votes.value_names[votes.x[0, 3]]
        ('republican', 'physician-fee-freeze', 'y')
        >>> int((votes.x == 2).sum())
        392

    References:
        Congressional Quarterly Almanac, 98th Congress, 2nd session 1984, volume XL; donated to the
        UCI Machine Learning Repository by Jeff Schlimmer (1987).
    """
    class_names, value_names = ("democrat", "republican"), ("n", "y", "?")
    rows = [line.split(",") for line in _read("house-votes-84.data.gz").split()]
    return HouseVotes(
        x=np.stack([_codes(row[1:], value_names) for row in rows]),
        y=_codes([row[0] for row in rows], class_names),
        feature_names=(
            "handicapped-infants",
            "water-project-cost-sharing",
            "adoption-of-the-budget-resolution",
            "physician-fee-freeze",
            "el-salvador-aid",
            "religious-groups-in-schools",
            "anti-satellite-test-ban",
            "aid-to-nicaraguan-contras",
            "mx-missile",
            "immigration",
            "synfuels-corporation-cutback",
            "education-spending",
            "superfund-right-to-sue",
            "crime",
            "duty-free-exports",
            "export-administration-act-south-africa",
        ),
        class_names=class_names,
        value_names=value_names,
    )


def load_mushroom() -> Mushroom:
    """The mushroom records: 8,124 hypothetical samples of 23 species, 4,208 of them edible.

    The columns have 2 to 12 values. `value_names` lists the documented values, of which several
    never occur: veil-type is "partial" in every row. 2,480 cells are missing ("?" in the file), all
    in stalk-root; they are coded -1. With these data use
    `num_values=tuple(map(len, mushroom.value_names))` and `missing_code=-1`.

    Returns:
        The records as codes, the classes, and the names of the columns, the classes and the values.

    Example:
        >>> from genclf.datasets import load_mushroom
        >>> mushroom = load_mushroom()
        >>> num_values = tuple(map(len, mushroom.value_names))
        >>> odor = mushroom.feature_names.index("odor")
        >>> mushroom.value_names[odor][mushroom.x[0, odor]], num_values[odor]
        ('pungent', 9)
        >>> mushroom.class_names[mushroom.y[0]], int((mushroom.x == -1).sum())
        ('poisonous', 2480)

    References:
        The Audubon Society Field Guide to North American Mushrooms (1981); donated to the UCI
        Machine Learning Repository by Jeff Schlimmer (1987).
    """
    # As in the documentation, except its misprint "ibrous" for "fibrous" (stalk surfaces).
    documented = {
        "cap-shape": "bell=b conical=c convex=x flat=f knobbed=k sunken=s",
        "cap-surface": "fibrous=f grooves=g scaly=y smooth=s",
        "cap-color": "brown=n buff=b cinnamon=c gray=g green=r pink=p purple=u red=e white=w "
        "yellow=y",
        "bruises?": "bruises=t no=f",
        "odor": "almond=a anise=l creosote=c fishy=y foul=f musty=m none=n pungent=p spicy=s",
        "gill-attachment": "attached=a descending=d free=f notched=n",
        "gill-spacing": "close=c crowded=w distant=d",
        "gill-size": "broad=b narrow=n",
        "gill-color": "black=k brown=n buff=b chocolate=h gray=g green=r orange=o pink=p purple=u "
        "red=e white=w yellow=y",
        "stalk-shape": "enlarging=e tapering=t",
        "stalk-root": "bulbous=b club=c cup=u equal=e rhizomorphs=z rooted=r",
        "stalk-surface-above-ring": "fibrous=f scaly=y silky=k smooth=s",
        "stalk-surface-below-ring": "fibrous=f scaly=y silky=k smooth=s",
        "stalk-color-above-ring": "brown=n buff=b cinnamon=c gray=g orange=o pink=p red=e white=w "
        "yellow=y",
        "stalk-color-below-ring": "brown=n buff=b cinnamon=c gray=g orange=o pink=p red=e white=w "
        "yellow=y",
        "veil-type": "partial=p universal=u",
        "veil-color": "brown=n orange=o white=w yellow=y",
        "ring-number": "none=n one=o two=t",
        "ring-type": "cobwebby=c evanescent=e flaring=f large=l none=n pendant=p sheathing=s "
        "zone=z",
        "spore-print-color": "black=k brown=n buff=b chocolate=h green=r orange=o purple=u white=w "
        "yellow=y",
        "population": "abundant=a clustered=c numerous=n scattered=s several=v solitary=y",
        "habitat": "grasses=g leaves=l meadows=m paths=p urban=u waste=w woods=d",
    }
    pairs = [[pair.split("=") for pair in values.split()] for values in documented.values()]
    rows = [line.split(",") for line in _read("agaricus-lepiota.data.gz").split()]
    label, *columns = zip(*rows, strict=True)
    codes = [
        _codes(column, ("?", *(letter for _, letter in values))) - 1
        for column, values in zip(columns, pairs, strict=True)
    ]
    return Mushroom(
        x=np.stack(codes, axis=1),
        y=_codes(label, ("e", "p")),
        feature_names=tuple(documented),
        class_names=("edible", "poisonous"),
        value_names=tuple(tuple(name for name, _ in values) for values in pairs),
    )


def _read(name: str) -> str:
    """The text of a compressed file in `data/`, also when the package lies inside a zip file."""
    file = resources.files(__name__) / "data" / name
    return gzip.decompress(file.read_bytes()).decode("utf-8")


def _codes(values, names: tuple[str, ...]) -> NDArray[np.int32]:
    """The index of each value among `names`; raises `KeyError` for an unknown value."""
    code = {name: i for i, name in enumerate(names)}
    return np.array([code[value] for value in values], dtype=np.int32)
