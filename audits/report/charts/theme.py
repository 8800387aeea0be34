"""Theme: colours and sizes of all charts, and their styles on pages and in files."""

from audits.core.records import Json

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"

OKABE_ITO = ("#3B8EDE", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442", "#999999")
"""Colours that people with any common colour vision can tell apart; the blue is lighter, for dark pages."""

UNDECIDED = "#888888"
"""Of what is not beyond chance, and of lines that only help to read; one grey for light and dark pages."""

CLEAR = "transparent"
DASHES = [4, 3]

MOST_SERIES = 4
"""More labelled lines than this in one panel become small multiples."""

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 190, 140, 3
"""Size of one small multiple in pixels and how many stand side by side; the page narrows both on a phone."""

STACKED_WIDTH, HEIGHT = 440, 280
"""Width in pixels of panels that stand under one another, which the page fits to its own; height of a lone panel."""

PHONE_WIDTH, TALL, SQUARE = 300, 340, 380
"""Pixels: the width at which labels of points must not meet, and the heights of a panel of curves and of one whose
two axes are alike."""

CONFIG: Json = {
    "background": None,
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "domainOpacity": 0.4,
        "tickOpacity": 0.4,
        "gridOpacity": 0.12,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "titlePadding": 10,
    },
    "axisX": {"labelFlush": False},
    "header": {"labelColor": "currentColor", "labelFontSize": 12, "labelFontWeight": 600},
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 320,
        "titleLimit": 0,
    },
    "text": {"color": "currentColor"},
    "title": {"color": "currentColor", "fontSize": 13, "fontWeight": 600},
    "view": {"stroke": None},
}
"""Looks without a colour of their own: text and lines take the colour of the page around them."""
