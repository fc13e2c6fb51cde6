"""The machines that compile."""
