"""Files of every kind given to `compare`: the right reading, or one line that says why not."""

import bz2
import gzip
import io
import lzma
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile

import pytest

import genclf.tables.comparison
from genclf.cli.files import read_table
from genclf.cli.main import main

ROWS = "".join(f"{i % 7}.{i},{'pq'[i % 2]}\n" for i in range(30))
GOOD = ("a,y\n" + ROWS).encode()


def zipped(*contents):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for place, content in enumerate(contents):
            archive.writestr(f"{place}.csv", content)
    return out.getvalue()


def tarred(*contents):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for place, content in enumerate(contents):
            info = tarfile.TarInfo(f"{place}.csv")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def column(*cells, n=30, sep=","):
    """A file with these cells, over and over, in column a, and a label of two classes."""
    rows = [f"{cells[i % len(cells)]}{sep}{'pq'[i % 3 % 2]}" for i in range(n)]
    return "\n".join([f"a{sep}y", *rows, ""]).encode()


def labelled(*labels, n=30):
    """The same with these labels, beside a column of numbers."""
    return "\n".join(["a,y", *(f"{i}.5,{labels[i % len(labels)]}" for i in range(n)), ""]).encode()


BAD = {
    "empty.csv": (b"", "the file is empty"),
    "blank.csv": (b"\n\n  \n\n", "the file is empty"),
    "bom.csv": (b"\xef\xbb\xbf", "the file is empty"),
    "nul.csv": (b"\0" * 100, "is not UTF-8 text: line 1 has a NUL"),
    "a nul.csv": (GOOD[:40] + b"\0" + GOOD[40:], "is not UTF-8 text: line 8 has a NUL"),
    "utf16.csv": (GOOD.decode().encode("utf-16"), "is not UTF-8 text (line 1)"),
    "utf16le.csv": (GOOD.decode().encode("utf-16-le"), "line 1 has a NUL"),
    "utf32.csv": (GOOD.decode().encode("utf-32"), "is not UTF-8 text (line 1)"),
    "noise.csv": (bytes(range(256)) * 9, "is not UTF-8 text"),
    "picture.png": (b"\x89PNG\r\n\x1a\n" + bytes(99), "is not UTF-8 text"),
    "book.xlsx": (zipped(GOOD), "is not UTF-8 text"),
    "unnamed-gzip.csv": (gzip.compress(GOOD), "is not UTF-8 text"),
    "corrupt.gz": (b"no gzip", "cannot be unpacked: Not a gzipped file"),
    "cut.gz": (gzip.compress(GOOD)[:-9], "cannot be unpacked"),
    "flipped.gz": (gzip.compress(GOOD)[:20] + b"zzzz" + gzip.compress(GOOD)[24:], "unpacked"),
    "corrupt.bz2": (b"no bzip", "cannot be unpacked: Invalid data stream"),
    "cut.bz2": (bz2.compress(GOOD)[:-9], "cannot be unpacked"),
    "corrupt.xz": (b"no xz", "cannot be unpacked: Input format not supported"),
    "cut.xz": (lzma.compress(GOOD)[:-9], "cannot be unpacked"),
    "corrupt.zip": (b"no zip", "cannot be unpacked: File is not a zip file"),
    "cut.zip": (zipped(GOOD)[:-9], "cannot be unpacked"),
    "crc.zip": (zipped(GOOD).replace(b"6.6,p", b"6.6,q", 1), "cannot be unpacked: Bad CRC"),
    "none.zip": (zipped(), "holds 0 files, expected one"),
    "two.zip": (zipped(GOOD, GOOD), "holds 2 files, expected one"),
    "empty-inside.zip": (zipped(b""), "the file is empty"),
    "corrupt.tar": (b"no tar" * 99, "cannot be unpacked"),
    "cut.tar": (tarred(GOOD)[:700], "cannot be unpacked"),
    "two.tar": (tarred(GOOD, GOOD), "holds 2 files, expected one"),
    "corrupt.tar.gz": (gzip.compress(b"no tar" * 99), "cannot be unpacked"),
    "corrupt.zst": (b"no zst", "needs the package zstandard: pip install zstandard"),
    "quote.csv": (b'a,y\n"1,p\n2,q\n', "not a CSV file"),
    "ragged.csv": (b"a,y\n1,p\n1,q,3,4\n", "the first line has 2 fields, but line 3 has 4"),
    "wide.csv": (
        b"a,y\n1.5,p,7\n2.5,q,7\n",
        "first line has 2 fields, but line 2 has 3, line 3 has 3",
    ),
    "one-line.csv": (b"a,y", "has a header but no rows"),
    "one-row.csv": (b"a,y\n1,p\n", "only one class, 'p'"),
    "two-rows.csv": (b"a,y\n1,p\n2,q\n", "one usable row, so it cannot be both learned and tested"),
    "no-label.csv": (b"a,b\n1,p\n2,q\n", "no column 'y'; the columns are 'a', 'b'"),
    "label-twice.csv": (b"y,a,y\n1,2,1\n", "2 columns are named 'y': which is the label?"),
    "label-thrice.csv": (b"y,y,y\n1,2,1\n", "3 columns are named 'y'"),
    "same-label.csv": (labelled("p"), "only one class, 'p'"),
    "true-label.csv": (labelled("true", "True", "TRUE"), "only one class, 'True'"),
    "no-value.csv": (labelled(""), "label 'y' is missing in every row"),
    "continuous.csv": (labelled(*(f"{i / 7}" for i in range(30))), "it looks continuous"),
    "commas-label.csv": (labelled(*(f'"{i},7"' for i in range(30))), "it looks continuous"),
    "own.csv": (labelled(*(f"name {i}" for i in range(30))), "too many to learn"),
    "copy.csv": (b"a,y\np,p\nq,q\np,p\nq,q\n", "(a: a copy of the label)"),
    "all-missing.csv": (column(""), "(a: no value)"),
    "all-infinite.csv": (column("inf", "-inf", "Infinity"), "row 0, column 'a': inf, expected fin"),
    "overflow.csv": (column("1e999", "9" * 400), "row 0, column 'a': inf, expected finite numbers"),
    "infinite.csv": (
        column("inf", "-inf", *(f"{i}.5" for i in range(28))),
        "row 0, column 'a': inf, expected finite numbers",
    ),
    "nearly-missing.csv": (column(*[""] * 29, "2.5"), "constant where it is not missing"),
    "dates.csv": (
        column(*(f"2024-01-{i:02}" for i in range(1, 31))),
        'a: dates: the kind "date" reads year, month',
    ),
    "\u202e\n.csv": (b"", "\\u202e\\n.csv: the file is empty"),
    "newline-in-name.csv": (b'"a\nb",y\n1,p\n1,q\n1,p\n1,q\n', "(a\\nb: constant)"),
    "some-no-number.csv": (
        column("unknown", *(f"{i}.5" for i in range(29))),
        "(a: 30 strings in 30 rows: 1 cell is not a number, such as 'unknown')",
    ),
    "index.csv": (b"__index_level_0__,y\n5,p\n7,q\n1,p\n2,q\n", "(__index_level_0__: the index of"),
    "numbers.csv": (column(*range(1, 31)), "contains the row numbers"),
}

# name: content, and what the report says of its columns.
READ = {
    "good.csv": (GOOD, ["a  numeric  30 numbers, 0 to 6.6"]),
    "bom-good.csv": (b"\xef\xbb\xbf" + GOOD, ["a  numeric"]),
    "crlf.csv": (GOOD.replace(b"\n", b"\r\n"), ["a  numeric  30 numbers, 0 to 6.6"]),
    "mac.csv": (GOOD.replace(b"\n", b"\r"), ["a  numeric  30 numbers, 0 to 6.6"]),
    "no-last-newline.csv": (GOOD[:-1], ["a  numeric  30 numbers"]),
    "trailing-comma.csv": (GOOD.replace(b"p\n", b"p,\n").replace(b"q\n", b"q,\n"), ["a  numeric"]),
    "good.csv.gz": (gzip.compress(GOOD), ["a  numeric"]),
    "GOOD.CSV.GZ": (gzip.compress(GOOD), ["a  numeric"]),
    "good.csv.bz2": (bz2.compress(GOOD), ["a  numeric"]),
    "good.csv.xz": (lzma.compress(GOOD), ["a  numeric"]),
    "good.zip": (zipped(GOOD), ["a  numeric"]),
    "good.tar": (tarred(GOOD), ["a  numeric"]),
    "good.tar.gz": (gzip.compress(tarred(GOOD)), ["a  numeric"]),
    "quoted.csv": (b'a,y\n"1\n2",p\n"1\n2",q\n"3",p\n"3",q\n', ["a  binary  2 values: 1\\n2, 3"]),
    "escapes.csv": (column("\x1b[31mred", "\x07bell"), ["2 values: \\x07bell, \\x1b[31mred"]),
    "wide-characters.csv": (column("日本", "naïve", "🎈"), ["3 values: naïve, 日本, 🎈"]),
    "twice.csv": (
        b"a,a,y\n"
        + b"".join(b"%d.5,%d.25,%s\n" % (i, i % 7, b"pq"[i % 2 :][:1]) for i in range(9)),
        ["a (column 1)  numeric", "a (column 2)  numeric"],
    ),
    "twice-and-made.csv": (
        b"a,a,a (column 1),y\n1,2,3,p\n2,1,3,q\n1,2,4,p\n2,1,4,q\n",
        ["a (column 1) (column 3)  binary"],
    ),
    "dotted.csv": (b"y,y.1\n" + b"p,1\nq,2\np,2\nq,1\n" * 3, ["y.1  binary"]),
    "unnamed.csv": (b",y\n" + b"1,p\n2,q\n2,p\n1,q\n" * 3, ["Unnamed: 0  binary"]),
    "another-name.csv": (
        b"a,y\n" + b"red,p\ngreen,q\n" * 5,
        ["These columns determine the class one to one: a."],
    ),
    "big-labels.csv": (
        labelled("9007199254740992", "9007199254740993", ""),
        ["label y: 9007199254740992 50.0%, 9007199254740993 50.0%"],
    ),
    "huge-labels.csv": (
        labelled("1" * 30 + "1", "1" * 30 + "2"),
        ["label y: 1111111111111111111111111111111 50.0%, 1111111111111111111111111111112"],
    ),
    "same-labels.csv": (labelled("1", "1.0", "2", "+2"), ["label y: 1 53.3%, 2 46.7%"]),
    "infinite-labels.csv": (labelled("inf", "1", "-inf"), ["-inf 33.3%", "inf 33.3%"]),
    "boolean-labels.csv": (labelled("true", "FALSE", "True"), ["label y: False 33.3%, True"]),
    "mixed-labels.csv": (labelled("1", "1.0", "one"), ["1 33.3%, 1.0 33.3%, one 33.3%"]),
    "single.csv": (
        GOOD + b"3.5,r\n2.5,s\n",
        ["which cannot be both learned and tested: r, s.", "30 rows; label y: p 50.0%, q 50.0%"],
    ),
    "rare.csv": (GOOD + b"3.5,r\n2.5,r\n", ["Fewer rows than folds: r 2.", "10-fold"]),
    "few.csv": (
        b"a,y\n1.5,p\n2.5,q\n1.0,p\n2.0,q\n0.5,p\n",
        ["3 folds rather than 10: no class has more than 3 rows. Fewer rows than folds: q 2."],
    ),
    "booleans.csv": (column("true", "False", "TRUE"), ["a  binary  2 values: False, True"]),
    "big-codes.csv": (
        column("9007199254740992", "9007199254740993", "", ""),
        ["2 values: 9007199254740992,"],
    ),
    "huge.csv": (
        column(*(10**30 + i * 10**20 for i in range(30))),
        ["a  numeric  30 numbers, 1e+30"],
    ),
    "exponents.csv": (
        column(*(f"{i}.5e300" for i in range(30))),
        ["30 numbers, 5e+299 to 2.95e+301"],
    ),
    "tiny.csv": (column(*(f"{i}.5e-310" for i in range(30))), ["a  numeric  30 numbers, 5e-311"]),
    "latin.csv": (
        column("é", "a").decode().encode("latin-1"),
        ["2 values: a, é", "The file is not UTF-8 (line 2); it is read as Latin-1."],
    ),
    "holes-of-labels.csv": (labelled("", "NA", "?"), ["20 rows; label y: ? 50.0%, NA 50.0%"]),
    "none.csv": (labelled("None", "b"), ["label y: None 50.0%, b 50.0%"]),
    "holes.csv": (
        column("", "?", " NA", *(f"{i}.5" for i in range(27))),
        ["a  numeric  27 numbers, 0.5 to 26.5  3", "Read as missing cells: a '?' 1, 'NA' 1."],
    ),
    "none-and-others.csv": (
        column("None", "n/a", "-", "null", n=40),
        ["a  categorical  3 values: -, None, n/a  10", "Read as missing cells: a 'null' 10."],
    ),
    "mostly-missing.csv": (
        column(*[""] * 20, *(f"{i}.5" for i in range(10))),
        ["10 numbers", "20"],
    ),
    "decimal-commas.csv": (
        column(*(f"{i},{i:02}" for i in range(30)), sep=";"),
        ["a  numeric  30 numbers, 0 to 29.29", "Read as numbers with a decimal comma: a."],
    ),
    "quoted-commas.csv": (
        column(*(f'"{i},5"' for i in range(30))),
        ["a  numeric  30 numbers, 0.5 to 29.5", "Read as numbers with a decimal comma: a."],
    ),
    "german.csv": (
        column(*(f"{i + 1}.000,5" for i in range(30)), sep=";"),
        ["a  numeric  30 numbers, 1000.5 to 30000.5", "with a decimal comma: a."],
    ),
    "thousands.csv": (
        column(*(f'"{i + 1},000.5"' for i in range(30))),
        ["a  numeric  30 numbers, 1000.5 to 30000.5", "with a comma between thousands: a."],
    ),
    "strange-category.csv": (
        column("unknown", *(f"{i}.5" for i in range(12)), n=60),
        ["a  categorical  13 values: 5 cells are not numbers, such as 'unknown'"],
    ),
    "mixed.csv": (column("1", "one", "2024-01-01", "TRUE", ""), ["4 values: 1, 2024-01-01"]),
    "underscores.csv": (column("1_0", "2_0"), ["a  binary  2 values: 1_0, 2_0"]),
    "spaces.csv": (column(*(f" {i}.5 " for i in range(30))), ["a  numeric  30 numbers, 0.5"]),
    "markup.csv": (column("[red]", "[/b]"), ["2 values: [/b], [red]"]),
    "zeros.csv": (column("0", "-0", "0.0", "1"), ["a  binary  2 values: 0, 1"]),
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def without_fits(monkeypatch):
    """Only the class prior is tried."""
    all_of = genclf.tables.comparison.candidates
    monkeypatch.setattr(genclf.tables.comparison, "candidates", lambda *given: all_of(*given)[:1])
    for name in ("on_columns", "on_terms"):
        monkeypatch.setattr(genclf.tables.comparison, name, lambda *given: [])


def refused(capsys, *arguments):
    """The one line on stderr."""
    assert main(["compare", *arguments, "--label", "y"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("genclf: error: ") and err.endswith("\n") and err.count("\n") == 1
    return err


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(here, capsys, name):
    content, message = BAD[name]
    (here / name).write_bytes(content)
    assert message in refused(capsys, name)


@pytest.mark.parametrize("name", READ)
def test_what_a_file_is_read_as(here, capsys, monkeypatch, name):
    without_fits(monkeypatch)
    content, expected = READ[name]
    (here / name).write_bytes(content)
    separator = ";" if content.startswith(b"a;") else ","
    assert main(["compare", name, "--label", "y", "--sep", separator]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = ["  ".join(line.split()) for line in out.splitlines()]
    words = "  ".join(lines)
    for part in expected:
        assert "  ".join(part.split()) in words


ROWS = [f"{i}.5" for i in range(30)]
Y = ["pq"[i % 3 % 2] for i in range(30)]
ARFF = "@relation r\n@attribute a numeric\n@attribute b {u,v}\n@attribute y {p,q}\n@data\n"

# name: content, options, and what the report says.
FOUND = {
    "semicolons.csv": ("a;y\n" + "\n".join(map(";".join, zip(ROWS, Y, strict=True))), [],
        ["a  numeric  30 numbers, 0.5 to 29.5", "Columns are separated by semicolons."]),
    "tabs.txt": ("a\ty\n" + "\n".join(map("\t".join, zip(ROWS, Y, strict=True))), [],
        ["a  numeric  30 numbers", "Columns are separated by tabs."]),
    "bars.txt": ("a|y\n" + "\n".join(map("|".join, zip(ROWS, Y, strict=True))), [],
        ["a  numeric  30 numbers", "Columns are separated by bars."]),
    "blanks.txt": ("a   y\n" + "\n".join(f"  {a}    {y}" for a, y in zip(ROWS, Y, strict=True)),
        [],
        ["a  numeric  30 numbers", "Columns are separated by blanks."]),
    "comma-and-blank.csv": (
        "a, b, y\n" + "\n".join(f"{a}, {'?' if i % 5 == 0 else i % 4}, {y}"
                                 for i, (a, y) in enumerate(zip(ROWS, Y, strict=True))), [],
        ["a  numeric  30 numbers", "b  categorical  4 values: 0, 1, 2, 3", "b '?' 6."]),
    "blank-cells.csv": (
        "a,y\n" + "\n".join(f"{'   ' if i == 7 else a},{y}"
                            for i, (a, y) in enumerate(zip(ROWS, Y, strict=True))), [],
        ["a  numeric  29 numbers, 0.5 to 29.5  1"]),
    "no-header.csv": (
        "\n".join(map(",".join, zip(ROWS, Y, strict=True))), ["--no-header", "--label", "2"],
        ["30 rows; label 2: p 66.7%, q 33.3%", "1  numeric  30 numbers, 0.5 to 29.5"]),
    "header-is-a-row.csv": (
        "\n".join(map(",".join, zip(ROWS, Y, strict=True))), ["--label", "2"],
        ["30 rows; label 2:", "The first line is read as a row: it holds '0.5' in a column"]),
    "header-may-be-a-row.csv": (
        "\n".join(map(",".join, zip(ROWS, ["y", *Y[1:]], strict=True))), [],
        ["29 rows; label y", "The header line holds '0.5' in a column of numbers: if it is a row"]),
    "codes.csv": (
        "zip,y\n" + "\n".join(f"{['08001', '10115'][i % 2]},{y}" for i, y in enumerate(Y)), [],
        ["zip  binary  2 values: 08001, 10115"]),
    "spelled.csv": (
        "a,y\n" + "\n".join(f"{'-' if i % 5 == 0 else a},{y}"
                            for i, (a, y) in enumerate(zip(ROWS, Y, strict=True))), ["--holes=-,x"],
        ["a  numeric  24 numbers", "Read as missing cells: a '-' 6."]),
    "zeros.csv": (
        "a,y\n" + "\n".join(f"{['0', '0.0', '00.0'][i % 3] if i < 6 else a},{y}"
                            for i, (a, y) in enumerate(zip(ROWS, Y, strict=True))), ["--holes=0"],
        ["a  numeric  24 numbers", "Read as missing cells: a '0' 2, '0.0' 2, '00.0' 2."]),
    "kinds.csv": (
        "a,d,y\n" + "\n".join(f"{a},2024-0{1 + i % 9}-01,{y}"
                              for i, (a, y) in enumerate(zip(ROWS, Y, strict=True))),
        ["--kind", "a=kernel", "--kind", "d=date"],
        ["a  kernel  30 numbers", "d month  categorical"]),
    "table.arff": (
        ARFF + "\n".join(f"{'?' if i == 3 else a},{'uv'[i % 2]},{y}"
                         for i, (a, y) in enumerate(zip(ROWS, Y, strict=True))), [],
        ["a  numeric  29 numbers, 0.5 to 29.5  1", "b  binary  2 values: u, v"]),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_files_as_people_have_them(here, capsys, monkeypatch, name):
    without_fits(monkeypatch)
    content, options, expected = FOUND[name]
    (here / name).write_text(content + "\n")
    options = options if "--label" in options else ["--label", "y", *options]
    assert main(["compare", name, *options]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    words = "  ".join("  ".join(line.split()) for line in out.splitlines())
    for part in expected:
        assert "  ".join(part.split()) in words


def test_all_problems_are_in_one_message(here, capsys):
    (here / "a.csv").write_text("a,y\n1,p\n1,q,3\n1,p\n1,2,3,4\n")
    assert "the first line has 2 fields, but line 3 has 3, line 5 has 4" in refused(capsys, "a.csv")
    (here / "b.arff").write_text("@relation r\n@attribute a strange\n@data\n1\n")
    assert "not an ARFF file: " in refused(capsys, "b.arff")


def test_the_number_of_a_column_needs_no_header(here, capsys):
    (here / "a.csv").write_text("p,u\nq,v\np,u\nq,u\n")
    assert main(["compare", "a.csv", "--label", "1"]) == 2
    assert "--no-header makes 1 the number of a column" in capsys.readouterr().err


@pytest.mark.parametrize("share", [0.4, 0.05])
def test_no_number_of_a_report_is_cut_at_80_columns(here, capsys, monkeypatch, share):
    """Nor a name of a model, where there is room; `share` is that of the rarer class."""
    monkeypatch.setenv("COLUMNS", "80")
    y = ["yes" if i < share * 100 else "no" for i in range(100)]
    cells = [f"{i % 37 + 0.5},{'abc'[i % 3]},{'pqr'[i % 7 % 3]}" for i in range(100)]
    rows = "".join(f"{x},{k}\n" for x, k in zip(cells, y, strict=True))
    (here / "a.csv").write_text("a,b,c,y\n" + rows)
    assert main(["compare", "a.csv", "--label", "y", "--folds", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and "\u2026" not in "".join(lines)
    header = next(i for i, line in enumerate(lines) if "log-loss" in line and "Brier" in line)
    scores = [line for line in lines[header:] if re.search(r"%  +", line)]
    numbers = r" (\d+\.\d{3} +){3}(\d+\.\d% +){3}\d\.\d{3} *$"
    assert len(scores) > 3 and all(re.search(numbers, line) for line in scores), scores


@pytest.mark.parametrize(
    "path", ["s3://bucket/a.csv", "http://127.0.0.1:9/a.csv", "https://x/a.zip", "file:///a.csv"]
)
def test_nothing_is_fetched(capsys, monkeypatch, path):
    monkeypatch.setattr(socket, "socket", None)
    assert "URLs are not fetched; download the file" in refused(capsys, path)


def test_what_is_no_file_is_refused(here, capsys, monkeypatch):
    assert ".: is a directory" in refused(capsys, ".")
    assert "/dev/zero: is a device" in refused(capsys, "/dev/zero")
    assert "none.csv: no such file" in refused(capsys, "none.csv")
    assert "no such file" in refused(capsys, "")
    assert "File name too long" in refused(capsys, "a" * 5000)
    said = refused(capsys, "a\0b")
    assert "a\\x00b: " in said and "embedded null" in said
    (here / "good.csv").write_bytes(GOOD)
    monkeypatch.setattr(
        "builtins.open", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no"))
    )
    assert "good.csv: no" in refused(capsys, "good.csv")


def test_a_missing_decompressor_is_named_and_one_that_is_there_used(here, capsys, monkeypatch):
    packed = {"good.csv.zst": GOOD, "good.tar.zst": tarred(GOOD)}
    for name, content in packed.items():
        (here / name).write_bytes(content[::-1])

    class Decompressor:
        def stream_reader(self, file):
            return io.BytesIO(file.read()[::-1])

    peer = type(sys)("zstandard")
    peer.ZstdDecompressor = Decompressor
    without_fits(monkeypatch)
    monkeypatch.setitem(sys.modules, "zstandard", peer)
    for name in packed:
        assert main(["compare", name, "--label", "y"]) == 0
        assert "30 numbers" in capsys.readouterr().out
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert "pip install zstandard, or unpack the file" in refused(capsys, "good.csv.zst")


@pytest.mark.parametrize("separator", ["", ",,", '"', "\n", "\r", "\0", "é", "→"])
def test_an_odd_separator_is_refused(capsys, separator):
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "file.csv", "--label", "y", "--sep", separator])
    err = capsys.readouterr().err
    assert "argument --sep" in err and "is not a single ASCII character" in err


@pytest.mark.parametrize("separator", ["\t", ";", "|", ":", " ", ".", "^", "x", "\\"])
def test_a_separator_is_a_character_and_no_pattern(here, capsys, monkeypatch, separator):
    without_fits(monkeypatch)
    rows = "".join(f"{i}{separator}{'pq'[i % 2]}\n" for i in range(0, 90, 3))
    (here / "file.csv").write_text(f"a{separator}y\n{rows}")
    assert main(["compare", "file.csv", "--label", "y", "--sep", separator]) == 0
    assert "30 numbers, 0 to 87" in capsys.readouterr().out


def test_a_pipe_is_read(here):
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: (here / "pipe").write_bytes(GOOD))
    writer.start()
    assert list(read_table("pipe", "y").columns) == ["a", "y"]
    writer.join()


@pytest.mark.slow
def test_a_terminal_that_knows_few_characters():
    program = (
        "from genclf.cli.report import open_console, say; say(open_console(), '± \\udcff \\x1b[1m')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == rb"\xb1 \udcff \x1b[1m" + b"\n"
