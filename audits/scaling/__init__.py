"""How operations, memory, decode state and time grow with length."""
