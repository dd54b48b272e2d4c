"""Arguments of llama-server that a profile may not set, and what to set instead."""

_GROUPS = {
    "set context in the profile": "-c --ctx-size",
    "set concurrency in the profile": "-np --parallel",
    "set cpu_cores in the profile": "-t --threads -tb --threads-batch",
    "llmgw chooses as many as the concurrency asks for": "--threads-http",
    "set gpus in the profile": "-ngl --gpu-layers --n-gpu-layers -dev --device --rpc",
    "set adapters in the model": "--lora --lora-scaled --lora-init-without-apply",
    "llmgw chooses address and port": "--host --port --reuse-port",
    "llmgw sets each replica's key itself": "--api-key --api-key-file",
    "engines speak plain HTTP to the gateway": "--ssl-key-file --ssl-cert-file",
    "the model's public name is used": "-a --alias",
    "weights come from the model's source": """
        -m --model -mu --model-url -dr --docker-repo -hf -hfr --hf-repo -hff --hf-file -hft
        --hf-token -hfd -hfrd --hf-repo-draft --spec-draft-hf -hfv -hfrv --hf-repo-v -hffv
        --hf-file-v -mmu --mmproj-url --embd-gemma-default --fim-qwen-1.5b-default
        --fim-qwen-3b-default --fim-qwen-7b-default --fim-qwen-7b-spec --fim-qwen-14b-spec
        --fim-qwen-30b-default --gpt-oss-20b-default --gpt-oss-120b-default
        --vision-gemma-4b-default --vision-gemma-12b-default
    """,
    "llmgw reads the engine's output as it sets it": """
        -lv -v --verbose --verbosity --log-verbose --log-verbosity --log-disable --log-file
        --log-colors --log-prompts-dir
    """,
    "llmgw asks the engine under its usual paths": """
        --metrics --no-slots --api-prefix --path --sleep-idle-seconds
    """,
    "it opens this node to whoever can send a request": """
        --tools --tools-runtime --mcp-servers-config --mcp-servers-json -ag --agent
        --ui-mcp-proxy --webui-mcp-proxy --media-path --slot-save-path
    """,
    "a replica serves one model": """
        --models-dir --models-preset --models-max --models-autoload
    """,
    "it prints something and ends": """
        -h --help --usage --version -cl --cache-list --completion-bash --list-devices
    """,
}
"""Why, and the options it holds for."""

_REFUSED = {option: words for words, options in _GROUPS.items() for option in options.split()}


def refusal(argument: str) -> str | None:
    """Return why a profile may not have that argument, by name; None when it may.

    llama.cpp reads `_` in a long option as `-`: so does this.
    """
    name = argument.partition("=")[0]
    if name.startswith("--"):
        name = name.replace("_", "-")
    words = _REFUSED.get(name)
    return f"{name} is not for a profile: {words}" if words else None
