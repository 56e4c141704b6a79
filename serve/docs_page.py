"""The page at `/docs`: the OpenAPI document as HTML. It loads nothing from anywhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;
color:#1b1b1b;background:#fff}
code,pre{font:14px/1.4 ui-monospace,monospace}
pre{overflow-x:auto;background:#f4f4f4;padding:.8rem}
table{border-collapse:collapse;width:100%}
td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;
border-bottom:1px solid #ddd}h2{margin-top:2.5rem}.method{text-transform:uppercase;font-weight:700}
@media(prefers-color-scheme:dark){body{color:#eee;background:#161616}pre{background:#222}
td,th{border-color:#444}a{color:#8ab4f8}}
"""


def docs_page(document: Mapping[str, Any]) -> str:
    """HTML of an OpenAPI document: operations first, then the schemas they name."""
    info = document["info"]
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width,initial-scale=1">',
        f"<title>{escape(info['title'])} API</title><style>{_STYLE}</style></head><body><main>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        f"<p>{escape(info['description'])}</p>",
        '<p>For machines: <a href="openapi.json">openapi.json</a>.</p>',
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts += _operation(path, method, operation)
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        text = escape(json.dumps(schema, indent=2, ensure_ascii=False))
        parts.append(f'<h3 id="{escape(name)}">{escape(name)}</h3><pre tabindex="0">{text}</pre>')
    parts.append("</main></body></html>")
    return "\n".join(parts)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<h2><span class="method">{escape(method)}</span> <code>{escape(path)}</code></h2>'
    yield f"<p>{escape(operation['summary'])}</p>"
    if "requestBody" in operation:
        yield f"<p>Request: {_link(operation['requestBody'])}</p>"
    for parameter in operation.get("parameters", ()):
        yield (
            f"<p>Header <code>{escape(parameter['name'])}</code> (optional): "
            f"{escape(parameter['description'])}</p>"
        )
    yield '<table><thead><tr><th scope="col">status</th><th scope="col">body</th>'
    yield '<th scope="col">meaning</th></tr></thead><tbody>'
    for status, response in operation["responses"].items():
        yield (
            f"<tr><td>{escape(status)}</td><td>{_link(response)}</td>"
            f"<td>{escape(response['description'])}</td></tr>"
        )
    yield "</tbody></table>"


def _link(body: Mapping[str, Any]) -> str:
    ((kind, content),) = body["content"].items()
    name = content["schema"].get("$ref", "").rpartition("/")[2]
    if not name:
        return f"<code>{escape(kind)}</code>"
    return f'<a href="#{escape(name)}"><code>{escape(name)}</code></a>'
