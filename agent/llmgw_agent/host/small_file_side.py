"""The helper of small files. Run as `python -m llmgw_agent.host.small_file_side`."""

from pathlib import Path

import msgspec

from llmgw.base.errors import Unreadable
from llmgw.base.system import SystemFiles
from llmgw_agent.host.helper_side import serve
from llmgw_agent.host.small_file import MOST, FileRequest, FileText, ReadFile, WriteFile, Written


def answer(line: bytes) -> FileText | Written:
    """Return the answer to one request."""
    match msgspec.json.decode(line, type=FileRequest):
        case ReadFile(path=path):
            data = SystemFiles().read_part(Path(path), 0, MOST + 1)
            if len(data) > MOST:
                raise Unreadable(f"{path}: more than {MOST >> 20} MiB")
            return FileText(text=data.decode(errors="replace"))
        case WriteFile(path=path, text=text):
            SystemFiles().write(Path(path), text.encode())
            return Written()


if __name__ == "__main__":
    serve(answer)
