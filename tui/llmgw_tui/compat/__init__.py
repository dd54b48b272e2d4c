"""What had to be changed in libraries, each guarded and with its reason."""
