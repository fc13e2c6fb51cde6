"""The coordinator: one leader among any number keeps the cache inside its limits and serves purges, one at a time."""
