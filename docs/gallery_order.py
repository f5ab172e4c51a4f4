"""Order of the examples in the gallery."""

ORDER = [
    "plot_tutorial.py",
    "plot_hospitals.py",
    "plot_label_lists.py",
    "plot_text.py",
    "plot_forests.py",
    "plot_temperature.py",
    "plot_bad_merge.py",
    "cnn_student.py",
]


class GalleryOrder:
    """Sort key of sphinx-gallery: the place in the list above."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> int:
        """Return the place of a file."""
        return ORDER.index(name)
