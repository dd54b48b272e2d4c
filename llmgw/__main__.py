"""`python -m llmgw` is the program `llmgw`."""

from llmgw.cli.main import main

main()
