"""The overview of all runs below a folder: a line for each, and the course of every gated estimate."""
