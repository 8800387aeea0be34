"""Everything made from a finished run: charts, pages, comparisons and exports."""
