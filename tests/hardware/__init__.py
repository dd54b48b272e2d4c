"""What somebody with the hardware runs to check the readers there: `tests/hardware/check.sh`."""
