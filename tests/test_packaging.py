"""Distribution on a package index: one version, a README without broken links, a source archive with tests."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

import sklearn_uhc
from tests.test_docs import without_code

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10, where pytest brings it
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
HATCH = PROJECT["tool"]["hatch"]


def on_an_index(text):
    """The text as the build rewrites it for a package index."""
    for rule in HATCH["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    return text


def targets(text):
    """Targets of links and images in Markdown or HTML, in all their forms."""
    text = without_code(text)
    inline = re.findall(r"\]\(\s*([^)\s]+)", text) + re.findall(r"(?:src|href)\s*=\s*[\"']([^\"']+)", text)
    return inline + re.findall(r"^\s*\[[^\]]+\]:\s*(\S+)", text, flags=re.M)


def test_the_version_stands_in_the_package_and_the_citation_agrees():
    assert "version" in PROJECT["project"]["dynamic"]
    assert "version" not in PROJECT["project"]
    assert f'__version__ = "{sklearn_uhc.__version__}"\n' in (ROOT / HATCH["version"]["path"]).read_text()
    cited = re.findall(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.M)
    assert cited == [sklearn_uhc.__version__]


def test_the_readme_on_an_index_has_no_relative_link_and_no_picture_of_ours():
    assert PROJECT["project"]["dynamic"].count("readme") == 1
    (source,) = HATCH["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    text = (ROOT / source["path"]).read_text()
    shown = on_an_index(text)
    assert [target for target in targets(shown) if not target.startswith(("https://", "mailto:"))] == []
    for kept in (r"```.*?```", r"^#+ .*?$"):  # code, headings
        assert len(re.findall(kept, shown, flags=re.S | re.M)) == len(re.findall(kept, text, flags=re.S | re.M)) > 0
    assert re.findall(r"```.*?```", shown, flags=re.S) == re.findall(r"```.*?```", text, flags=re.S)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see [the guide](docs/guide.md).", "see the guide."),
        ("[two\nlines](docs/guide.md#part) [b](CHANGELOG.md)", "two\nlines b"),
        ("[paper](https://example.org/a_(b)) and [mail](mailto:a@example.org)", None),
        ("[![tests](https://example.org/tests.svg)](https://example.org)", None),
        ('<img src="https://example.org/a.png" alt="x">', None),
        ('a\n\n<img src="docs/a.png"\n     alt="x">\n\nb', "a\n\nb"),
        ("a ![picture](docs/a.png) b", "a b"),
        ("`lists[0](X)` and X[0](1)", None),
    ],
)
def test_what_becomes_of_links_and_pictures(text, shown):
    assert on_an_index(text) == (text if shown is None else shown)


def test_the_source_archive_holds_what_its_tests_read():
    included = [pattern.lstrip("/") for pattern in HATCH["build"]["targets"]["sdist"]["include"]]
    needed = [p.name for p in ROOT.iterdir() if p.suffix in (".md", ".cff", ".py", ".txt") or p.name == "Makefile"]
    needed += ["sklearn_uhc", "tests", "docs", "benchmarks"]
    assert "conftest.py" in needed
    assert [name for name in needed if not any(fnmatch(name, pattern) for pattern in included)] == []
