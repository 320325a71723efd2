from typing import Any, TypeVar

Frozen = TypeVar("Frozen")

def replaced(pattern: Frozen, **changes: Any) -> Frozen: ...
