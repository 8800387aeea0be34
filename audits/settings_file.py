"""The reader of TOML under a name that the command line may import."""

from probes.files.toml_values import read_toml

__all__ = ["read_toml"]
