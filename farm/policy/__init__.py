"""HOW kernels are cached: limits and ageing, after Ascend's rules. Pure: no clock, no I/O."""
