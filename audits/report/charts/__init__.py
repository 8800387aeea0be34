"""The kinds of charts that reports hold, as Vega-Lite with its data inside: one function each, all in one style.

A chart says nothing about background or text colour, so that it follows the page it stands on; marks take
Okabe-Ito colours, viridis, or a diverging scheme centred on zero. Equal rows give equal bytes in any call
order. What a function returns is finished: nobody edits it.
"""

from audits.report.charts.axes import Axis
from audits.report.charts.bars import bars
from audits.report.charts.curves import curves, roc
from audits.report.charts.heat_map import heat_map
from audits.report.charts.images import Picture, images
from audits.report.charts.intervals import bounds, forest
from audits.report.charts.lines import lines
from audits.report.charts.marks import ends_of, figure_of, numbers_of, stacked, with_table
from audits.report.charts.matrix import Tile, effect_matrix
from audits.report.charts.points import points
from audits.report.charts.strips import columns, strips, texts

__all__ = [
    "Axis",
    "Picture",
    "Tile",
    "bars",
    "bounds",
    "columns",
    "curves",
    "effect_matrix",
    "ends_of",
    "figure_of",
    "forest",
    "heat_map",
    "images",
    "lines",
    "numbers_of",
    "points",
    "roc",
    "stacked",
    "strips",
    "texts",
    "with_table",
]
