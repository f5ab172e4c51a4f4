"""The pages: all code is run, all links have a target, and every public name is in the reference."""

import json
import re
from importlib import import_module
from pathlib import Path

import pytest

import sklearn_uhc
from benchmarks.pictures import PICTURES

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
SITE = sorted([*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), *DOCS.glob("stories/*.md")])
PAGES = [*sorted(ROOT.glob("*.md")), *SITE]
#: Signs of a line of code that fit beside the columns of the site.
WIDEST = 97
MADE_BY_SPHINX = {"auto_examples": DOCS / "examples"}
MADE_IN_THE_BUILD = {DOCS / f"{name}_example.html": DOCS / "report_example.py" for name in ("report", "merge")}


def without_code(text):
    return re.sub(r"`[^`\n]*`", "", re.sub(r"```.*?```", "", text, flags=re.S))


def anchors(page):
    """Headings as GitHub and MyST name them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page.read_text(), flags=re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def target_of(page, link):
    """The target file of a link, also if Sphinx makes the page from an example."""
    path = (page.parent / link).resolve()
    for folder, source in MADE_BY_SPHINX.items():
        if path.parent == DOCS / folder:
            return source / ("GALLERY_HEADER.rst" if path.name == "index.rst" else path.with_suffix(".py").name)
    return MADE_IN_THE_BUILD.get(path, path)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in re.findall(r"(?:\]\(|src=\")([^)\s\"]+)", without_code(page.read_text())):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = target_of(page, file) if file else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_all_python_in_pages_is_run(page):
    for block in re.findall(r"^```python\n(.*?)^```$", page.read_text(), flags=re.S | re.M):
        assert block.startswith(">>>"), f"{page.name}: not a doctest:\n{block}"
        assert block.endswith("\n\n"), f"{page.name}: a doctest needs an empty line at its end:\n{block}"
        assert "+SKIP" not in block


def test_every_page_is_in_the_site():
    listed = {DOCS / "index"}
    for page in SITE:
        for tree in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(), flags=re.S):
            entries = [line.strip() for line in tree.splitlines() if line.strip() and not line.startswith(":")]
            entries = [entry for entry in entries if "<self>" not in entry]
            listed |= {page.parent / re.sub(r".*<(.*)>", r"\1", entry) for entry in entries}
    header = (DOCS / "examples" / "GALLERY_HEADER.rst").read_text()
    listed |= {DOCS / name for name in re.findall(r"^   /([\w/]+)$", header, flags=re.M)}
    assert {page.with_suffix("") for page in SITE} <= listed
    for name in listed - {DOCS / "auto_examples" / "index"}:
        assert name.with_suffix(".md").exists() or name.with_suffix(".rst").exists(), name


def test_no_page_has_a_name_that_sphinx_needs():
    assert not {"search", "genindex", "py-modindex"} & {page.stem for page in SITE}


@pytest.mark.parametrize("page", sorted(DOCS.glob("guide/*.md")), ids=lambda p: p.name)
def test_a_page_of_the_guide_opens_with_what_the_reader_gets_and_has_one_table_and_one_picture_at_most(page):
    text = page.read_text()
    assert re.match(r"# .+\n\n\*\*", text), "the first sentence is bold and says what the reader gets"
    bare = re.sub(r"```.*?```", "", text, flags=re.S)
    assert len(re.findall(r"^\|[ :|-]+\|$", bare, flags=re.M)) <= 1
    assert len(re.findall(r"!\[", bare)) <= 1
    code = "".join(re.findall(r"^```(?:python|py)\n(.*?)^```$", text, flags=re.S | re.M))
    wide = [line for line in code.splitlines() if line.startswith((">>>", "...")) and len(line) > WIDEST]
    assert not wide, "code that would wrap on a screen of 1280 pixels"


def test_paths_of_pages_in_docstrings_and_messages_exist():
    for file in [*ROOT.glob("sklearn_uhc/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]:
        for path in re.findall(r"\bdocs/[\w/]+\.md\b", file.read_text()):
            assert (ROOT / path).exists(), f"{file.relative_to(ROOT)} names {path}"


def test_every_public_name_is_in_the_reference():
    from sklearn_uhc import dask, inspection
    from sklearn_uhc.evidence import metrics
    from sklearn_uhc.merging import balance, losses

    listed = re.findall(r"^   ([\w.]+)$", (DOCS / "api.rst").read_text(), flags=re.M)
    public = {*sklearn_uhc.__all__}
    for part in (inspection, metrics, balance, losses, dask):
        public |= {f"{part.__name__.removeprefix('sklearn_uhc.')}.{name}" for name in part.__all__}
    assert public <= set(listed)
    assert len(listed) == len(set(listed))
    for name in set(listed) - public:  # bases and results, which nobody imports but somebody looks up
        module, _, own = f"sklearn_uhc.{name}".rpartition(".")
        assert own in import_module(module).__all__


def test_every_example_has_its_place_in_the_gallery():
    order = re.findall(r'"(\w+\.py)"', (DOCS / "gallery_order.py").read_text())
    assert sorted(order) == sorted(path.name for path in (DOCS / "examples").glob("*.py"))


def test_pictures_are_made_by_the_script():
    drawn = re.findall(r'FOLDER / "(\w+\.png)"', (DOCS / "make_pictures.py").read_text())
    drawn += [f"{name}.png" for name in PICTURES]
    assert sorted(drawn) == sorted(path.name for path in (DOCS / "images").iterdir())


def test_badges_are_true():
    settings = (ROOT / "pyproject.toml").read_text()
    badges = re.findall(r"img.shields.io/badge/(\w+)-([^)]+)-blue", (ROOT / "README.md").read_text())
    oldest = re.search(r'requires-python = ">=([\d.]+)"', settings)[1]
    assert dict(badges) == {"python": f"{oldest}%2B", "license": "BSD--3--Clause"}
    assert 'license = "BSD-3-Clause"' in settings


def test_the_notebook_for_gpus_can_be_compiled():
    notebook = json.loads((DOCS / "examples" / "gpu_check.ipynb").read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells
    for number, code in enumerate(cells):
        compile(code, f"cell {number}", "exec")
