// The request as the editor holds it, as JSON text, and as part of a link.

export const TYPES = { noul: "True or false", choice: "Choice", score: "Score" };

let keys = 0;

/** A question as the editor holds it: what belongs to its other types is kept, too. */
export function question(type, given = {}) {
  return {
    key: ++keys,
    id: "",
    type,
    instructions: "",
    noul: { true: "", false: "" },
    choice: [{ name: "", text: "" }, { name: "", text: "" }],
    score: ["", ""],
    ...given,
  };
}

/** An id that no question of the request has. */
export function freshId(request, type) {
  const taken = new Set(request.questions.map((asked) => asked.id));
  const stem = { noul: "is_true", choice: "which", score: "how_much" }[type];
  if (!taken.has(stem)) return stem;
  let number = 2;
  while (taken.has(`${stem}_${number}`)) number += 1;
  return `${stem}_${number}`;
}

// JSON is written by hand: objects of JavaScript put keys like "2" before all others, and the order
// of options is the order in which the model reads them. A state in JSON stays as it was typed.

const raw = (text) => ({ raw: text });
const object = (pairs) => ({ pairs });

function write(node, step, pad = "") {
  if (node?.raw !== undefined) return node.raw.replaceAll("\n", `\n${pad}`); // none is in a string
  const isObject = node?.pairs !== undefined;
  if (!isObject && !Array.isArray(node)) return JSON.stringify(node);
  const inner = pad + step;
  const parts = isObject
    ? node.pairs.map(([key, value]) => `${JSON.stringify(key)}: ${write(value, step, inner)}`)
    : node.map((value) => write(value, step, inner));
  const [open, close] = isObject ? "{}" : "[]";
  const line = open + parts.join(", ") + close;
  if (pad && line.length + pad.length <= 78 && !line.includes("\n")) return line;
  return `${open}\n${parts.map((part) => inner + part).join(",\n")}\n${pad}${close}`;
}

function criteria(asked) {
  if (asked.type === "choice") {
    return object(asked.choice.map(({ name, text }) => [name, text || null]));
  }
  if (asked.type === "score") return asked.score;
  const told = Object.entries(asked.noul).filter(([, text]) => text);
  return told.length ? object(told) : null;
}

/** The body of the request, ready to be sent. */
export function body(request, { model, mass, step = "  " }) {
  const questions = request.questions.map((asked) => {
    const told = criteria(asked);
    return [asked.id, object([
      ["type", asked.type],
      ...(asked.instructions ? [["instructions", asked.instructions]] : []),
      ...(told === null ? [] : [["criteria", told]]),
    ])];
  });
  const state = request.kind === "json" ? raw(request.state.trim()) : request.state;
  return write(object([
    ...(model ? [["model", model]] : []),
    ["state", state],
    ["questions", object(questions)],
    ...(mass ? [["x_legal_mass", true]] : []),
  ]), step);
}

// A link holds the request in its fragment, which browsers don't send.

export function toFragment(request) {
  const kept = {
    kind: request.kind,
    state: request.state,
    questions: request.questions.map(({ key, ...asked }) => asked),
  };
  const bytes = new TextEncoder().encode(JSON.stringify(kept));
  const letters = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The request of a link, or null. Whoever made the link, only text comes out. */
export function fromFragment(fragment) {
  try {
    const letters = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(letters, (letter) => letter.charCodeAt(0));
    const found = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return {
      kind: found.kind === "json" ? "json" : "text",
      state: String(found.state),
      questions: found.questions.map((asked) => question(
        Object.hasOwn(TYPES, asked.type) ? asked.type : "noul",
        {
          id: String(asked.id),
          instructions: String(asked.instructions),
          noul: { true: String(asked.noul.true), false: String(asked.noul.false) },
          choice: asked.choice.map(({ name, text }) => ({ name: String(name), text: String(text) })),
          score: asked.score.map(String),
        },
      )),
    };
  } catch {
    return null;
  }
}
