"""Serving as a job (PLC-12): what its next move is, from the job and the fleet alone."""
