"""``celery -A farm cache ...``: one file a command, or a few that belong together."""

from farm.commands.cache import entries, explain, export, import_, purge, stats, upkeep
from farm.commands.cache.group import cache

__all__ = ["cache", "entries", "explain", "export", "import_", "purge", "stats", "upkeep"]
