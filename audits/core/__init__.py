"""The frame of every audit: options, measures, context, estimates, findings, gates, registry and runner."""
