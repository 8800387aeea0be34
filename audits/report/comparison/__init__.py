"""What changed between two runs? The same estimates in both, paired by record where both judged the same records."""
