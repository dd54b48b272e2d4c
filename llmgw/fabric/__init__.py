"""What machines are plugged into: who reaches whom, and over what. Pure."""
