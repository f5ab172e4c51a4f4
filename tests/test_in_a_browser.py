"""The reports and the diagram in a real browser: two widths, light and dark mode."""

import json
import re
import shutil
import subprocess
import warnings

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import merge_report, teacher_report
from tests.helpers import linear_teachers

pytest.importorskip("matplotlib")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium, Debian's for one")

#: Inspects the page and writes its findings to the title.
PROBE = """<script>
const light = c => { const [r, g, b] = c.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(
  v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
const paper = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
  if (!/, 0\\)$/.test(c)) return c; } return "rgb(255, 255, 255)"; };
const contrast = e => { const a = light(getComputedStyle(e).color), b = light(paper(e));
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); };
const texts = [...document.querySelectorAll("h1, h2, h3, p, td, th, li, footer, summary")];
document.title = JSON.stringify({
  width: innerWidth, page: document.documentElement.scrollWidth,
  images: Math.max(0, ...[...document.images].map(i => i.getBoundingClientRect().right)),
  contrast: Math.min(21, ...texts.map(contrast)), night: matchMedia("(prefers-color-scheme: dark)").matches,
  labels: [...document.querySelectorAll(".sk-parallel-item, th:last-child")].map(
    e => Math.round(e.getBoundingClientRect().right)),
});
if (parent !== window) parent.postMessage(document.title, "*");
</script>"""
#: Chromium's smallest window width: a narrower page is shown in a frame, which passes on the findings.
NARROWEST = 500
FRAME = """<!DOCTYPE html><title></title><script>addEventListener("message", e => document.title = e.data)</script>
<iframe src="{src}" style="width: {width}px; height: 800px; border: 0"></iframe>"""


def seen(path, width, night):
    """Return the findings of the probe for a page that is `width` pixels wide."""
    if width < NARROWEST:
        frame = path.with_name(f"frame{width}.html")
        frame.write_text(FRAME.format(src=path.name, width=width), encoding="utf-8")
        path = frame
    theme = f"--blink-settings=preferredColorScheme={0 if night else 1}"
    size = f"--window-size={width},900"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", theme, size]
    flags += ["--virtual-time-budget=5000", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *flags, path.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return json.loads(re.search(r"<title>(\{.*?\})</title>", done.stdout).group(1))


def many_teachers(n=15):
    rng = np.random.default_rng(0)
    lists = [[f"class {k}" for k in sorted(rng.choice(10, size=5, replace=False))] for _ in range(n)]
    return dict(zip((f"hospital {i} of the region" for i in range(n)), linear_teachers(lists), strict=True))


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(60, 4))


def merged(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random teachers contradict each other
        return HeterogeneousDistiller(many_teachers(), KNeighborsClassifier(3)).fit(X)


@pytest.fixture(scope="module", params=["teachers", "merge"])
def report_page(X, tmp_path_factory, request):
    path = tmp_path_factory.mktemp("report") / "report.html"
    if request.param == "teachers":
        html = teacher_report(many_teachers(), X).to_html()
    else:
        labels = [f"class {k % 10}" for k in range(len(X))]
        html = merge_report(merged(X), X, labels).to_html()
    html = html.replace("<details", "<details open")
    path.write_text(html.replace("</body>", PROBE + "</body>"), encoding="utf-8")
    return path


@pytest.mark.parametrize("night", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_fits_and_can_be_read(report_page, width, night):
    found = seen(report_page, width, night)
    assert (found["width"], found["night"]) == (width, night)
    assert found["page"] <= width
    assert found["images"] <= width
    assert found["contrast"] >= 4.5  # WCAG 2, level AA
    if width == 1280:
        assert max(found["labels"]) <= width  # no column of a table is cut off


def test_the_diagram_shows_all_its_boxes(X, tmp_path):
    path = tmp_path / "diagram.html"
    path.write_text(f"<!DOCTYPE html><title></title><body>{merged(X)._repr_html_()}{PROBE}</body>", encoding="utf-8")
    found = seen(path, 1280, night=False)
    assert len(found["labels"]) >= 4
    assert max(found["labels"]) <= 1280
