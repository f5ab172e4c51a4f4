"""The paper's own results, its table "Average accuracy of UHC methods", to stand beside ours."""

from __future__ import annotations

from typing import NamedTuple

#: The rows of the paper's table in its groups. What it writes MF-LV is MF-LU in its text and here.
GROUPS: dict[str, list[str]] = {
    "": ["SPV", "SD"],
    "(A) Estimate q": ["CE-E", "MF-P-E", "MF-LU-E", "MF-LF-E"],
    "(B) Backpropagation": ["CE-BP", "MF-P-BP", "MF-LU-BP", "MF-LF-BP"],
    "(C) Balanced soft labels": ["SD-BS", "CE-BS", "MF-P-BS", "MF-LU-BS", "MF-LF-BS"],
}
METHODS = [method for group in GROUPS.values() for method in group]

PROTOCOLS = {"random": "random classes", "overlapping": "completely overlapping classes"}
DATASETS = {"imagenet": "ImageNet", "lsun": "LSUN", "places365": "Places365"}
STUDENTS = {"vgg16": "VGG16", "resnet34": "ResNet34"}

#: Which of the paper's datasets a dataset of ours is compared with.
COUNTERPARTS = {dataset: dataset for dataset in DATASETS} | {
    "features": "imagenet",
    "tinyimagenet": "imagenet",
    "digits": "lsun",
}

# Columns: protocol, then dataset, then student, in the order of the dictionaries above.
# ! is the best of a column (the paper underlines it), * not significantly different from the best (bold).
_TABLE = """
SPV       .7212  .6953  .6664  .6760  .5525  .5870  .7345  .7490  .6769  .7017  .5960  .6460
SD        .5543  .5562  .5310  .5350  .4390  .4564  .7275* .7292* .7004  .7041* .6163* .6402*
CE-E      .6911* .6852* .6483  .6445* .5484* .5643* .7276* .7290* .7002  .7036  .6162* .6406!
MF-P-E    .6819  .6747  .6443  .6406  .5349  .5488  .7280! .7297! .7012* .7052* .6167! .6406!
MF-LU-E   .6660  .6609  .6348  .6330  .5199  .5414  .7231  .7242  .7031! .7043* .6129  .6374
MF-LF-E   .6886  .6833* .6490  .6458* .5441  .5609  .7265  .7279* .7015* .7057! .6161* .6397*
CE-BP     .6902* .6869* .6520* .6439  .5466  .5669* .7275* .7288* .7003  .7040* .6161* .6400*
MF-P-BP   .6945! .6872! .6480  .6417* .5471* .5609  .7277* .7287* .6999  .7019* .6146  .6384
MF-LU-BP  .6889  .6847* .6495* .6389  .5467  .5681* .7229  .7225  .7001  .7046* .6113  .6369
MF-LF-BP  .6842  .6840* .6523* .6445* .5383  .5624* .7239  .7252  .7020* .7034  .6104  .6366
SD-BS     .6629  .6574  .6343  .6345  .5283  .5433  .7217  .7214  .6979  .7017  .6094  .6320
CE-BS     .6928* .6856* .6513  .6464* .5548! .5687* .7215  .7213  .6979  .7018  .6094  .6323
MF-P-BS   .6851  .6756  .6474  .6450* .5455  .5546  .7243  .7252  .6996  .7041  .6124  .6355
MF-LU-BS  .6772  .6682  .6388  .6357  .5346  .5497  .7168  .7173  .7014  .7028  .6063  .6301
MF-LF-BS  .6935* .6865* .6549! .6485! .5544* .5692! .7210  .7215  .6998  .7035  .6101  .6330
"""
_COLUMNS = [(protocol, dataset, student) for protocol in PROTOCOLS for dataset in DATASETS for student in STUDENTS]
_MARKS = {"!": "best", "*": "same"}


class Column(NamedTuple):
    """One column of the paper's table: `accuracy` and `mark` ("best", "same" or "") by method."""

    title: str
    accuracy: dict[str, float]
    mark: dict[str, str]


def column(protocol: str, dataset: str, student: str) -> Column | None:
    """Return the paper's results that a setting of ours is compared with, None if it has none.

    Students that the paper did not train stand beside its VGG16.
    """
    student = student if student in STUDENTS else "vgg16"
    key = (protocol, COUNTERPARTS.get(dataset, ""), student)
    if key not in _COLUMNS:
        return None
    cells = {name: values[_COLUMNS.index(key)] for name, *values in map(str.split, _TABLE.strip().splitlines())}
    return Column(
        f"{DATASETS[key[1]]}, {STUDENTS[student]}, {PROTOCOLS[protocol]}",
        {name: float(cell[:5]) for name, cell in cells.items()},
        {name: _MARKS.get(cell[5:], "") for name, cell in cells.items()},
    )
