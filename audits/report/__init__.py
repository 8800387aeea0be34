"""What is made of a finished run: charts, pages, comparisons and exports."""
