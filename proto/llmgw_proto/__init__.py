"""Wire messages (`wire`, generated) and their conversion to records (`convert`)."""
