"""HOW kernels are cached, after Ascend's rules. Pure: no clock, and no I/O but the one debug file that a job names."""
