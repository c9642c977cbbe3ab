"""Tables without usable names of columns are refused with the remedy that fits: they are what people try first."""

import numpy as np
import pytest

from dpeigen import PrivatePCA
from dpeigen.cli._errors import as_options
from dpeigen.sources import open_source
from dpeigen.sources.files import columns_of
from dpeigen.studio.errors import plain_remedies


def written(folder, text):
    path = folder / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("read", [columns_of, open_source])
def test_a_title_above_the_names_is_not_taken_for_names(tmp_path, read):
    path = written(tmp_path, "Hospital,,\n,,\nage,pressure,pulse\n50,120,70\n")
    with pytest.raises(ValueError, match=r"further down in the file, give .* header=3 \(--header 3\)") as refused:
        read(path)
    assert "give the number of their line, then read the names again" in plain_remedies(str(refused.value))


@pytest.mark.parametrize("text", ["", "\n", "\nage,pressure\n50,120\n"])
def test_an_empty_first_line_is_called_empty(tmp_path, text):
    with pytest.raises(Exception, match=r"The first line of 't.csv' must hold column names, and it is empty"):
        open_source(written(tmp_path, text))


@pytest.mark.parametrize("mixed", [False, True])
def test_repeated_names_of_a_frame_are_named(mixed):
    frame = pytest.importorskip("pandas").DataFrame(np.ones((50, 3)), columns=["a", "a", "b"])
    frame["c"] = 1 if mixed else 1.0
    with pytest.raises(ValueError, match=r"Got \['a'\] more than once. Rename these columns."):
        PrivatePCA(1, epsilon=1.0).fit(frame)


def test_a_series_and_a_frame_without_columns_are_not_blamed_on_their_entries():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="must be two-dimensional"):
        PrivatePCA(1, epsilon=1.0).fit(pandas.Series(np.ones(50)))
    with pytest.raises(ValueError, match="The data have no columns"):
        PrivatePCA(1, epsilon=1.0).fit(pandas.DataFrame())


def test_a_misspelt_column_with_a_declaration_is_recognised(tmp_path):
    path = written(tmp_path, "age,married\n50,yes\n")
    with pytest.raises(ValueError, match=r"Got \['Married'\] instead. Did you mean 'married'\?") as refused:
        open_source(path, columns={"Married": {"levels": ["no", "yes"]}, ...: None})
    assert as_options(str(refused.value)).startswith("Columns that options or settings declare must be names of some")


def test_the_command_line_says_how_to_declare_text_in_its_own_words(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"age": [50.0, 60.0], "sex": ["f", "m"]})
    with pytest.raises(ValueError, match=r"Leave out or encode: sex \(string\)") as refused:
        open_source(table)
    said = as_options(str(refused.value))
    assert "--skip leaves columns out; --category, --ordinal and --type declare" in said
    assert "open_source" not in said
