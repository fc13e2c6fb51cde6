"""Serves clients that have nothing but Celery: their submissions go on in steps, whichever planner dies."""
