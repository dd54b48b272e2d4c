"""How an error travels from a helper process."""

from llmgw_agent.host.helper_side import failed


def test_a_file_that_cannot_be_used_is_told_by_its_path_and_why() -> None:
    told = failed(PermissionError(13, "Permission denied", "/e/llamacpp"))
    assert (told.error, told.message) == ("LlmgwError", "/e/llamacpp: Permission denied")
    assert failed(OSError("odd")).message == "OSError: odd"
