// What is wrong, said beside the field that it belongs to.
import { $, h, unique } from "./dom.js";

/** Where the server's `loc` points to, or null: a selector within the page. */
function selector(loc, request) {
  const [, first, id, , part, which] = loc;
  if (["state", "model", "x_legal_mass"].includes(first)) return `[data-place=${first}]`;
  if (first !== "questions") return null;
  const asked = request.questions.find((one) => one.id === id);
  if (asked === undefined) return "[data-place=questions]";
  const card = `[data-key="${asked.key}"]`;
  if (loc[3] === "type") return `${card} [data-place=type]`;
  if (part === "instructions") return `${card} [data-place=instructions]`;
  if (part !== "criteria") return `${card} [data-place=id]`;
  const index = asked.type === "choice" ? asked.choice.findIndex(({ name }) => name === which) : which;
  if (which === undefined || index === -1) return `${card} [data-place=criteria]`;
  const row = { choice: "option", score: "level", noul: "side" }[asked.type];
  return `${card} [data-place=${row}][data-index="${CSS.escape(index)}"]`;
}

/** What can be told without the server: JSON that isn't, ids and names that are there twice. */
export function check(request) {
  const found = [];
  const tell = (place, message) => found.push({ place, message });
  if (request.kind === "json") {
    try {
      JSON.parse(request.state);
    } catch (error) {
      tell("[data-place=state]", `This is not JSON: ${error.message}.`);
    }
  }
  if (request.questions.length === 0) tell("[data-place=questions]", "Ask at least one question.");
  const ids = new Set();
  for (const asked of request.questions) {
    const card = `[data-key="${asked.key}"]`;
    if (!asked.id) tell(`${card} [data-place=id]`, "The question needs an id.");
    else if (ids.has(asked.id)) tell(`${card} [data-place=id]`, "Another question has this id.");
    ids.add(asked.id);
    if (asked.type !== "choice") continue;
    const names = new Set();
    asked.choice.forEach(({ name }, index) => {
      const row = `${card} [data-place=option][data-index="${index}"]`;
      if (!name.trim()) tell(row, "The option needs a name.");
      else if (names.has(name)) tell(row, "Another option has this name.");
      names.add(name);
    });
  }
  return found;
}

/** The problems of a 422. */
export function located(detail, request) {
  return detail.map(({ loc, msg }) => ({ place: selector(loc ?? [], request), message: msg }));
}

export function clear() {
  for (const error of document.querySelectorAll(".error")) unmark(error);
  $("problem").replaceChildren();
}

/** Say each where it belongs and put the focus on the first; those without a place by the button. */
export function show(problems) {
  clear();
  let first = null;
  for (const { place, message } of problems) {
    const box = place && document.querySelector(place);
    if (box) first ??= mark(box, message);
    else $("problem").append(h("p", {}, message));
  }
  first?.focus();
  first?.scrollIntoView({ block: "center" });
}

function mark(box, message) {
  const closed = box.closest("details");
  if (closed) closed.open = true;
  const error = h("p", { class: "error", id: unique("error") }, message);
  box.append(error);
  const control = box.querySelector("input, textarea, select")
    ?? document.querySelector("[data-add]");
  control.setAttribute("aria-invalid", "true");
  const described = control.getAttribute("aria-describedby");
  control.setAttribute("aria-describedby", described ? `${error.id} ${described}` : error.id);
  // Until something is done about it: there, or with the button that would help.
  box.addEventListener("input", () => unmark(error));
  for (const place of [box, control]) {
    place.addEventListener("click", ({ target }) => { if (target.closest("button")) unmark(error); });
  }
  error.control = control;
  return control;
}

function unmark(error) {
  if (!error.isConnected) return;
  const { control } = error;
  error.remove();
  const rest = (control.getAttribute("aria-describedby") ?? "").split(" ").filter((id) => id !== error.id);
  if (rest.join("")) control.setAttribute("aria-describedby", rest.join(" "));
  else control.removeAttribute("aria-describedby");
  control.removeAttribute("aria-invalid");
}
