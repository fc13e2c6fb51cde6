"""A job's options as words for a compiler's command line: placeholders that are empty when the job says nothing."""

from __future__ import annotations

from farm.request.job_options import JobOptions

#: Always a number.
OP_DEBUG_LEVEL = "op_debug_level"
#: Empty unless the job gives them; a word of a command line with an empty one is left out.
OPTIONAL = ("op_debug_config", "aicore_num", "cube_core_num", "vector_core_num")
PLACES = (OP_DEBUG_LEVEL, *OPTIONAL)


def job_words(options: JobOptions) -> dict[str, str]:
    """What each placeholder stands for: ``aicore_num`` as Ascend has it, ``24|48``."""
    cores = [str(count) for count in options.aicore_num or ()] or ["", ""]
    return {
        OP_DEBUG_LEVEL: str(options.op_debug_level),
        "op_debug_config": ",".join(options.op_debug_config),
        "aicore_num": "|".join(cores) if options.aicore_num else "",
        "cube_core_num": cores[0],
        "vector_core_num": cores[1],
    }
