"""The farm's sub-commands of ``celery -A farm``."""
