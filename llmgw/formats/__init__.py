"""File formats of models: bytes to records. Pure: whoever calls opens the file."""
