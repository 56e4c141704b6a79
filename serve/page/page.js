// The page: a request that is edited, sent, shown as code, and its answers.
import { $, copy, fit, h, say } from "./dom.js";
import { body, fromFragment, toFragment } from "./request.js";
import { EXAMPLES } from "./examples.js";
import { Editor } from "./editor.js";
import { counted, milliseconds, results, spoken } from "./answers.js";
import { check, clear, located, show } from "./problems.js";
import { curl, pretty, python } from "./snippets.js";

const ENDPOINT = new URL("v1/systemone", document.baseURI).href;
const HINTS = {
  text: "Any text: a message, a document, a transcript.",
  json: "An object, or an array whose parts are read one by one.",
};

let request, before = null, pending = null, sent = null, answered = "", needsKey = false, tab = "curl";
const editor = new Editor(changed);

// The request

function load(given, remember = false) {
  before = remember ? request : null;
  $("undo").hidden = before === null;
  request = given;
  $("state").value = request.state;
  document.querySelector(`[name=kind][value=${request.kind}]`).checked = true;
  clear();
  editor.draw(request);
  kind();
}

function kind() {
  $("state-hint").textContent = HINTS[request.kind];
  $("state").classList.toggle("mono", request.kind === "json");
  fit($("state"));
  changed();
}

function changed() {
  $("stale").hidden = sent === null || text() === sent;
  draw();
}

const text = (step) => body(request, { model: $("model").value, mass: $("mass").checked, step });

// Asking

function headers() {
  const key = $("key").value.trim();
  return key ? { authorization: `Bearer ${key}` } : {};
}

async function ask() {
  const problems = check(request);
  if (problems.length) return refused(problems);
  clear();
  pending = new AbortController();
  busy(true);
  const asked = structuredClone(request.questions);
  const content = text();
  const start = performance.now();
  let again = false;
  try {
    const response = await fetch(ENDPOINT, {
      method: "POST", body: content, signal: pending.signal, cache: "no-store",
      headers: { "content-type": "application/json", ...headers() },
    });
    const told = await response.text();
    const took = performance.now() - start;
    answered = told;
    if (response.ok) answer(JSON.parse(told), asked, content, took);
    else if (lacksMass(response, told)) again = true;
    else refused(failures(response, told));
  } catch (error) {
    if (error.name === "AbortError") $("status").textContent = "Cancelled.";
    else if (error instanceof SyntaxError) refused([{ message: "The answer was cut short. Ask again." }]);
    else refused([{ message: "The server can’t be reached. Is it still running?" }]);
  } finally {
    pending = null;
    busy(false);
    draw();
  }
  if (again) {
    await ask();
    say("This model can’t measure its legal mass.");
  }
}

/** Whether the model can't measure its legal mass; it isn't asked for any more then. */
function lacksMass(response, told) {
  if (response.status !== 422 || !$("mass").checked) return false;
  const { detail } = JSON.parse(told);
  if (!Array.isArray(detail) || !detail.some(({ loc }) => loc?.[1] === "x_legal_mass")) return false;
  $("mass").checked = false;
  $("mass").disabled = true;
  return true;
}

function busy(now) {
  $("submit").textContent = now ? "Cancel" : "Ask";
  $("submit").classList.toggle("busy", now);
  $("results").setAttribute("aria-busy", String(now));
  if (now) $("status").textContent = "Asking…";
}

function answer(response, asked, content, took) {
  sent = content;
  $("stale").hidden = true;
  $("results").replaceChildren(...results(response, asked, took));
  const ms = response.x_latency_ms ?? took;
  $("status").textContent = `${counted(response.answers)} in ${milliseconds(ms)}`;
  say(spoken(response, asked));
  const { top } = $("answers").getBoundingClientRect();
  if (top > innerHeight - 120) $("answers").scrollIntoView();
}

function refused(problems) {
  $("status").textContent = "Not answered.";
  show(problems);
}

/** What to say, and where, about an answer that isn't a 200. */
function failures(response, told) {
  let detail = null;
  try {
    ({ detail } = JSON.parse(told));
  } catch {
    // Not ours: a proxy's page, perhaps.
  }
  if (response.status === 422 && Array.isArray(detail)) return located(detail, request);
  const message = detail?.message ?? `The server answered ${response.status} ${response.statusText}.`;
  if (response.status === 401 || response.status === 403) {
    needsKey = true;
    return [{ place: "[data-place=key]", message }];
  }
  if (response.status === 400) return [{ place: "[data-place=model]", message }];
  if (response.status === 429) {
    const seconds = response.headers.get("retry-after");
    return [{ message: `The server is busy. Ask again in ${seconds ?? "a few"} s.` }];
  }
  return [{ message }];
}

async function listModels() {
  try {
    const response = await fetch("v1/models", { headers: headers(), cache: "no-store" });
    if (!response.ok) {
      if (response.status === 401 || response.status === 403) {
        needsKey = true;
        $("key-box").open = true;
        draw();
      }
      return;
    }
    const { models } = await response.json();
    const chosen = $("model").value;
    $("model").replaceChildren(...models.map(({ name, description }) =>
      h("option", { value: name, title: description }, name)));
    if (models.some(({ name }) => name === chosen)) $("model").value = chosen;
    changed();
  } catch {
    // Asking says so, should the server really be gone.
  }
}

// Code

function draw() {
  const hasKey = needsKey || $("key").value !== "";
  const shown = {
    curl: () => curl(ENDPOINT, text(), hasKey),
    python: () => python(ENDPOINT, text("    "), hasKey),
    response: () => (answered ? pretty(answered) : "Nothing yet: ask first."),
  };
  $("code").textContent = shown[tab]();
}

function choose(name, focus = false) {
  tab = name;
  for (const one of document.querySelectorAll("[role=tab]")) {
    const now = one.id === `tab-${name}`;
    one.setAttribute("aria-selected", String(now));
    one.tabIndex = now ? 0 : -1;
    if (now && focus) one.focus();
  }
  $("code").setAttribute("aria-labelledby", `tab-${name}`);
  draw();
}

async function copied(button, content, done) {
  const label = button.textContent;
  const went = await copy(content);
  button.textContent = went ? done : "Not allowed";
  say(went ? done : "The browser doesn’t allow copying.");
  setTimeout(() => { button.textContent = label; }, 1600);
}

// Listeners

$("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (pending) pending.abort();
  else ask();
});
$("ask").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.isComposing) return;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    if (!pending) ask();
  } else if (event.target.matches("input:not([type=checkbox])") && pending) {
    event.preventDefault();
  }
});
$("state").addEventListener("input", () => {
  request.state = $("state").value;
  fit($("state"));
  changed();
});
for (const radio of document.querySelectorAll("[name=kind]")) {
  radio.addEventListener("change", () => { request.kind = radio.value; clear(); kind(); });
}
for (const button of document.querySelectorAll("[data-add]")) {
  button.addEventListener("click", () => editor.add(button.dataset.add));
}
$("examples").append(...Object.entries(EXAMPLES).map(([name, make]) =>
  h("button", { type: "button", class: "link", onclick: () => {
    load(make(), true);
    say(`Loaded ${name}.`);
  } }, name)));
$("undo").addEventListener("click", () => {
  load(before);
  $("state").focus();
  say("Your request is back.");
});
$("model").addEventListener("change", () => { $("mass").disabled = false; changed(); });
$("mass").addEventListener("change", changed);
$("key").addEventListener("input", draw);
$("key").addEventListener("change", listModels);

const tabs = ["curl", "python", "response"];
for (const name of tabs) {
  $(`tab-${name}`).addEventListener("click", () => choose(name));
  $(`tab-${name}`).addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const to = { Home: 0, End: tabs.length - 1 }[event.key]
      ?? (step && (tabs.indexOf(name) + step + tabs.length) % tabs.length);
    if (to === undefined) return;
    event.preventDefault();
    choose(tabs[to], true);
  });
}
$("copy").addEventListener("click", () => copied($("copy"), $("code").textContent, "Copied"));
$("share").addEventListener("click", () => {
  const link = new URL(document.baseURI);
  link.hash = toFragment(request);
  copied($("share"), link.href, "Link copied");
});

addEventListener("hashchange", () => {
  const linked = fromFragment(location.hash.slice(1));
  if (linked) load(linked, true);
});

load((location.hash.length > 1 && fromFragment(location.hash.slice(1))) || Object.values(EXAMPLES)[0]());
listModels();
