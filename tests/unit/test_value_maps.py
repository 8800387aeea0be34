"""Is a value map told as an input, by what it says?"""

from pathlib import Path

from audits.core.value_maps import value_map_sources


def test_a_map_is_known_by_what_it_says(tmp_path: Path) -> None:
    table, toml, other = tmp_path / "map.csv", tmp_path / "map.toml", tmp_path / "other.csv"
    table.write_text("column,from,to\nsex,f,woman\nsex,m,man\n", encoding="utf-8")
    toml.write_text('[sex]\nf = "woman"\nm = "man"\n', encoding="utf-8")
    other.write_text("column,from,to\nsex,f,woman\nsex,m,woman\n", encoding="utf-8")
    (one,), (same,), (edited,) = map(value_map_sources, (table, toml, other))
    assert (one.role, one.path, one.items) == ("value map", str(table), 2)
    assert one.sha256 == same.sha256 != edited.sha256
    assert value_map_sources(None) == ()
