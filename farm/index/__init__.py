"""The index: one Redis implementation, one Lua file an operation, outcomes as small typed rows."""
