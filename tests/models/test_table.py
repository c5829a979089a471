"""--model and models.toml: what a name stands for, and every way to say it wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from prefixscope.errors import FormatError, InputError, ModelError, OptionError
from prefixscope.models.table import ModelEntry, ModelTable, parse_model_option, unresolved_error
from prefixscope.models.table_file import read_models_file
from prefixscope.models.tokenizer import load_model

FULL = """\
[models."support-de"]
base = "bakery-8b"
path = "bakery"
revision = "abc123"
adapter = { name = "support-de", version = "3" }
chat_template = "tool_use.jinja"
template_options = { enable_thinking = false }
engine = "vllm@0.33"
block_size = 32
tensor_parallel = 2
kv_dtype = "fp8"

[models."support-de".position]
rope_theta = 1000000

[models.bakery-8b]
path = "bakery"
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "models.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_every_key_is_read(tmp_path: Path) -> None:
    (tmp_path / "bakery").mkdir()
    (tmp_path / "tool_use.jinja").write_text("x")
    first, second = read_models_file(written(tmp_path, FULL))
    assert first == ModelEntry(
        name="support-de", base="bakery-8b", location=str(tmp_path / "bakery"), revision="abc123",
        adapter="support-de@3", chat_template=str(tmp_path / "tool_use.jinja"),
        template_options={"enable_thinking": False}, position={"rope_theta": 1000000}, engine="vllm@0.33",
        block_size=32, tensor_parallel=2, kv_dtype="fp8", source=str(tmp_path / "models.toml"),
    )  # fmt: skip
    assert (second.name, second.base) == ("bakery-8b", "bakery-8b")


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("[models.a]\npath = 'x'\nblok_size = 3\n", 3, "unknown key 'blok_size' in [models.a]"),
        ("[models.b]\npath = 'x'\n[models.a]\nblock_size = 0\n", 4, "block_size of [models.a] must be a whole number"),
        ("[models.a]\npath = 3\n", 2, "path of [models.a] must be a text"),
        ("[models]\na = 3\n", 2, "[models.a] must be a table"),
        ("[models.a]\nadapter = { nam = 'x' }\n", 2, "adapter of [models.a] must be"),
        ("[models.a]\nadapter = { name = 'x', kind = 1 }\n", 2, "unknown key 'kind' in adapter"),
        ("x = 1\n[model.a]\n", 1, "unknown key 'x'"),
        ("[models.a]\npath = \n", 2, "Invalid value"),
        ("models.a.path = 'x'\nmodels.a.pth = 'y'\n", 2, "unknown key 'pth'"),
    ],
)
def test_a_wrong_file_names_the_line(tmp_path: Path, text: str, line: int, complaint: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_models_file(written(tmp_path, text))
    assert complaint in str(caught.value) and caught.value.line == line
    assert str(caught.value).startswith(f"{tmp_path / 'models.toml'}:{line}: ")


def test_a_mark_in_front_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_bytes(b'\xef\xbb\xbf[models."a"]\nbase = "x"\n')
    assert [entry.name for entry in read_models_file(tmp_path / "models.toml")] == ["a"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_models_file(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(FormatError, match="not UTF-8 at byte 2"):
        read_models_file(tmp_path / "latin.toml")


class TestResolve:
    def test_an_adapter_uses_its_bases_tokenizer_and_options(self) -> None:
        base = ModelEntry("b", "b", "folder", chat_template="t.jinja", position={"rope_theta": 1})
        table = ModelTable.of([ModelEntry("a", "b", adapter="a@1"), base])
        found = table.resolve("a")
        assert found is not None
        assert (found.location, found.chat_template, found.adapter, found.base) == ("folder", "t.jinja", "a@1", "b")
        assert found.position == {"rope_theta": 1}

    def test_a_base_that_is_no_entry_is_where_the_tokenizer_lies(self) -> None:
        found = ModelTable.of([ModelEntry("a", "Qwen/Qwen3-8B", adapter="a")]).resolve("a")
        assert found is not None and found.location == "Qwen/Qwen3-8B"

    def test_unknown_names_resolve_to_nothing(self) -> None:
        table = ModelTable.of([parse_model_option("a=x"), parse_model_option("b=y")])
        assert table.resolve("c") is None and table.resolve(None) is None

    def test_a_log_without_names_takes_the_only_entry(self) -> None:
        found = ModelTable.of([parse_model_option("a=x")]).resolve(None)
        assert found is not None and found.name == "a"

    def test_a_star_stands_for_other_names_that_stay_apart(self) -> None:
        table = ModelTable.of([parse_model_option("*=x"), parse_model_option("a=y")])
        first, second, listed = table.resolve("p"), table.resolve("q"), table.resolve("a")
        assert first is not None and second is not None and listed is not None
        assert (first.base, second.base, first.location, listed.location) == ("p", "q", "x", "y")

    @pytest.mark.parametrize("text", ["a", "=x", "a=", "", " = "])
    def test_malformed_options(self, text: str) -> None:
        with pytest.raises(OptionError, match="write NAME=FOLDER"):
            parse_model_option(text)

    def test_a_name_twice(self) -> None:
        with pytest.raises(OptionError, match="defined twice"):
            ModelTable.of([parse_model_option("a=x"), parse_model_option("a=y")])

    def test_unresolved_names_are_counted(self) -> None:
        message = str(unresolved_error({"small": 1, "large": 7, None: 2}))
        assert message.startswith("7 requests need the tokenizer of model 'large'")
        assert "and 2 more model names" in message and "--model large=FOLDER_OR_HUB_ID" in message
        assert "--model '*=FOLDER_OR_HUB_ID'" in str(unresolved_error({None: 1}))


class TestLoading:
    def test_a_folder_without_tokenizer(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"model 'm': folder .* holds no tokenizer"):
            load_model(ModelEntry("m", "m", str(tmp_path)))

    def test_a_folder_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="there is no folder"):
            load_model(ModelEntry("m", "m", str(tmp_path / "none")))

    def test_a_damaged_tokenizer(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer.json").write_text("{")
        with pytest.raises(ModelError, match="can't be loaded"):
            load_model(ModelEntry("m", "m", str(tmp_path)))

    def test_a_hub_id_outside_the_cache_is_said_at_once(self) -> None:
        with pytest.raises(ModelError, match="neither a folder nor in the local Hugging Face cache; fetch it first"):
            load_model(ModelEntry("m", "m", "harbour-bakery/no-such-model"))

    def test_no_location(self) -> None:
        with pytest.raises(ModelError, match="has no tokenizer; give its folder"):
            load_model(ModelEntry("m", "m"))
