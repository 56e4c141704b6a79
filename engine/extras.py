"""Which optional dependencies bring a package that isn't installed."""

from __future__ import annotations

EXTRAS = {
    "torch": frozenset({"torch", "transformers", "triton", "gguf"}),
    "torch,bench": frozenset({"matplotlib", "httpx", "xgrammar"}),
    "torch,calibrate": frozenset({"scipy", "sklearn"}),
    "torch,learn": frozenset({"peft", "cleanlab"}),
    "torch,serve": frozenset({"fastapi", "starlette", "uvicorn", "prometheus_client"}),
    "onnx": frozenset({"onnxruntime"}),
    "torch,export": frozenset({"onnx", "onnx_ir"}),
}
"""What the extras of pyproject.toml add, and what each package is first needed for."""


def advice(error: ModuleNotFoundError, prefer: str | None = None) -> str | None:
    """What to install, None for a package that no extra brings. `prefer` is the extra of the
    caller, named in place of another one that has the package too."""
    name = (error.name or "").partition(".")[0]
    extra = next((extra for extra, names in EXTRAS.items() if name in names), None)
    if extra is None:
        return None
    return (
        f"this command needs {name}, which isn't installed. "
        f'Install it with: pip install "readoff[{prefer or extra}]"'
    )
