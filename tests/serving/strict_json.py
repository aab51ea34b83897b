"""JSON as the standard has it."""

import json
from typing import Any


def strict(content: bytes) -> Any:
    """JSON as the standard has it: NaN and infinity are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(content, parse_constant=refuse)
