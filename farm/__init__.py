"""The farm: one shared kernel cache for accelerator operators, and the client that asks it."""
