"""Settings of the documentation: `make docs` builds it, warnings are errors."""

import re
import socket
import sys
import warnings
from pathlib import Path
from urllib.parse import urlsplit

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from docutils import nodes  # noqa: E402
from sphinx import addnodes  # noqa: E402

import sklearn_uhc  # noqa: E402

project = "sklearn-uhc"
author = "The sklearn-uhc developers"
release = version = sklearn_uhc.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "examples"]

# Links into the pages of others need the network. Without it the documentation is built without these links.
OTHERS = {
    "python": "https://docs.python.org/3",
    "numpy": "https://numpy.org/doc/stable",
    "sklearn": "https://scikit-learn.org/stable",
    "skorch": "https://skorch.readthedocs.io/en/stable",
}


def reachable(url):
    """Tell whether a host answers."""
    try:
        with socket.create_connection((urlsplit(url).hostname, 443), timeout=2):
            return True
    except OSError:
        return False


extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {name: (url, None) for name, url in OTHERS.items() if reachable(url)}
templates_path = ["_templates"]
default_role = "literal"
smartquotes = False

# Markdown pages
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# API reference
autosummary_generate = True
autodoc_typehints = "none"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_validation_checks = set()

# The prompt and the output of examples are not copied.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Gallery
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "gallery_order.GalleryOrder",
    "doc_module": ("sklearn_uhc",),
    "reference_url": {"sklearn_uhc": None},
    "backreferences_dir": "generated/backreferences",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "remove_config_comments": True,
    "plot_gallery": True,
}
warnings.filterwarnings("ignore", message=".*non-interactive.*")  # plt.show() in a build without a screen

html_theme = "pydata_sphinx_theme"
html_title = "sklearn-uhc"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_js_files = ["tables.js"]
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
}
html_sidebars = {"index": [], "for_me": [], "quickstart": [], "evidence": [], "changelog": []}


#: Full names of what api.rst lists, by the last part.
LISTED = re.findall(r"^   ([\w.]+)$", (Path(__file__).parent / "api.rst").read_text(), flags=re.M)
PUBLIC = {name.rpartition(".")[2]: f"sklearn_uhc.{name}" for name in LISTED}


def skip_foreign(app, what, name, obj, skip, options):
    """Leave out what classes inherit from scikit-learn and torch."""
    module = getattr(obj, "__module__", None) or getattr(getattr(obj, "fget", None), "__module__", "")
    foreign = callable(obj) and not str(module).startswith("sklearn_uhc")
    return True if foreign or name.startswith("set_") or name == "get_metadata_routing" else skip


def strip_code(app, doctree):
    """Take away the empty line that a doctest needs before the end of its block."""
    for block in doctree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.children, block.rawsource = [nodes.Text(text)], text


def link_names(app, doctree):
    """Make `Name`, where it stands as code and is a public name, and `docs/page.md` links to their pages."""
    for code in list(doctree.findall(nodes.literal)):
        name = re.fullmatch(r"(?:[a-z_]+\.)*(\w+)(?:\(\))?", code.astext())
        page = re.fullmatch(r"docs/([\w/]+)\.md", code.astext())
        if isinstance(code.parent, nodes.reference | nodes.title | addnodes.pending_xref):
            continue
        if page is not None:
            kind, target = ("std", "doc"), f"/{page[1]}"
        elif name is not None and name[1] in PUBLIC:
            kind, target = ("py", "obj"), PUBLIC[name[1]]
        else:
            continue
        link = addnodes.pending_xref(
            "", refdomain=kind[0], reftype=kind[1], reftarget=target, refexplicit=True, refwarn=False
        )
        code.replace_self(link)
        link += code


def make_report(app, error):
    """Write the report that docs/guide/diagnosing.md shows."""
    if error is None and app.builder.format == "html":
        from report_example import write

        write(Path(app.outdir))


def setup(app):
    """Connect to Sphinx."""
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("doctree-read", strip_code)
    app.connect("doctree-read", link_names)
    app.connect("build-finished", make_report)
