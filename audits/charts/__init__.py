"""The kinds of charts that reports hold, as Vega-Lite with its data inside: one function each, all in one style.

A chart says nothing about background or text colour, so that it follows the page it stands on; marks take
Okabe-Ito colours, viridis, or a diverging scheme centred on zero. Equal rows give equal bytes in any call
order. What a function returns is finished: nobody edits it.
"""

from audits.charts.axes import Axis
from audits.charts.bars import bars
from audits.charts.curves import curves, roc
from audits.charts.heat_map import heat_map
from audits.charts.images import Picture, images
from audits.charts.intervals import bounds, forest
from audits.charts.lines import lines
from audits.charts.marks import stacked, with_table
from audits.charts.matrix import Tile, effect_matrix
from audits.charts.points import points
from audits.charts.strips import columns, strips, texts

__all__ = [
    "Axis",
    "Picture",
    "Tile",
    "bars",
    "bounds",
    "columns",
    "curves",
    "effect_matrix",
    "forest",
    "heat_map",
    "images",
    "lines",
    "points",
    "roc",
    "stacked",
    "strips",
    "texts",
    "with_table",
]
