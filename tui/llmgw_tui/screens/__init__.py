"""Screens: each turns what the store knows into lines and says what keys do there."""
