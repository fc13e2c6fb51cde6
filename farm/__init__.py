"""The farm: one shared kernel cache for accelerator operators, and the client that asks it."""

from farm.client.connect import Farm, connect
from farm.client.job import Job
from farm.client.results import Progress, Result
from farm.errors import CompileFailed, FarmError, FarmRefused, FarmUnavailable, InputError
from farm.request.manifest import load, parse
from farm.request.model import Request

__all__ = [
    "CompileFailed",
    "Farm",
    "FarmError",
    "FarmRefused",
    "FarmUnavailable",
    "InputError",
    "Job",
    "Progress",
    "Request",
    "Result",
    "connect",
    "load",
    "parse",
]
