"""What a Celery-only client may say beside its manifest: the keyword arguments of ``farm.submit``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from farm.client.shaping import Shaping
from farm.errors import InputError
from farm.index.jobs import PRIORITIES
from farm.policy.cores import parse as parse_cores
from farm.policy.debug_config import parse as parse_debug_config
from farm.policy.modes import Debug, decide, read_level
from farm.request.values import printable, shown


class SubmitOptions(BaseModel):
    """The options of ``celery -A farm submit``, by their names with underscores."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: str = "enable"
    cache: str | None = None
    soc: str | None = None
    toolchain: str | None = None
    priority: str = "normal"
    owner: str | None = None
    op_debug_level: int | str = 0
    #: Not a file's name but its text: the planner reads no files for others.
    op_debug_config: str | None = None
    aicore_num: str | None = None
    jit_compile: Literal["true", "false", "auto"] | bool = "auto"
    timeout: float | None = Field(default=None, ge=0, le=31536000)
    #: Seconds for which pins are kept after the result is out; None: one job lease.
    hold: float | None = Field(default=None, ge=0, le=31536000)

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> SubmitOptions:
        """Check what was sent.

        Raises:
            InputError: names the argument; the submitter mends it.
        """
        try:
            options = cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(next(iter(first["loc"]), "(no text)"))
            raise InputError(
                f"farm.submit: argument {printable(name)} = {shown(given.get(name))}: {printable(first['msg'])}",
                fix=f"the arguments are: {', '.join(cls.model_fields)}",
            ) from None
        if options.priority not in PRIORITIES:
            raise InputError(
                f"priority {shown(options.priority)} is not known", fix=f"use one of: {', '.join(PRIORITIES)}"
            )
        return options

    def shaping(self) -> Shaping:
        """What they make of the operators.

        Raises:
            InputError: an option of Ascend's is not valid; the submitter mends it.
        """
        config = self.op_debug_config
        debug = Debug(
            read_level(str(self.op_debug_level)),
            *(() if config is None else parse_debug_config(config.encode(errors="replace"), "(text)")),
        )
        cores = None if self.aicore_num is None else parse_cores(self.aicore_num)
        return Shaping(decide(self.mode, debug), cores, str(self.jit_compile).lower())
