// The request as code. A key never gets in here: code names the variable that holds it.

const VARIABLE = "READOFF_API_KEY";
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** For a POSIX shell. */
export function curl(url, body, hasKey) {
  return [
    `curl -sS ${quoted(url)}`,
    ...(hasKey ? [`-H "Authorization: Bearer $${VARIABLE}"`] : []),
    "-H 'Content-Type: application/json'",
    `--data-raw ${quoted(body)}`,
  ].join(" \\\n  ");
}

/** JSON text as a Python expression: the same numbers, digit for digit. */
export function literal(json) {
  const words = { true: "True", false: "False", null: "None" };
  return json.replaceAll(/"(?:[^"\\]|\\.)*"|\b(?:true|false|null)\b/g, (token) =>
    token[0] === '"' ? JSON.stringify(JSON.parse(token)) : words[token]);
}

/** With httpx. */
export function python(url, body, hasKey) {
  const indented = literal(body).replaceAll("\n", "\n    ");
  return [
    ...(hasKey ? ["import os", ""] : []),
    "import httpx",
    "",
    "response = httpx.post(",
    `    ${JSON.stringify(url)},`,
    ...(hasKey ? [`    headers={"Authorization": f"Bearer {os.environ['${VARIABLE}']}"},`] : []),
    `    json=${indented},`,
    "    timeout=60,",
    ")",
    "response.raise_for_status()",
    'print(response.json()["answers"])',
  ].join("\n");
}

/** JSON text on several lines, its keys in their order and its numbers digit for digit. */
export function pretty(json) {
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return tokens.map((token, index) => {
    const empty = /[[{]/.test(tokens[index - 1]) && /[\]}]/.test(token);
    if (token === "{" || token === "[") {
      depth += 1;
      return /[\]}]/.test(tokens[index + 1]) ? token : token + line();
    }
    if (token === "}" || token === "]") {
      depth -= 1;
      return empty ? token : line() + token;
    }
    if (token === ",") return token + line();
    return token === ":" ? ": " : token;
  }).join("");
}
