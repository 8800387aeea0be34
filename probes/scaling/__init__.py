"""How operations, memory, decode state and time of a module grow: counted on fake tensors, and measured."""
