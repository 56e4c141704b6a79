// The answers: a card each, a bar an option.
import { h } from "./dom.js";

const SHOWN = 8;

/** 0.8812 as "88.1 %". */
export function percent(p) {
  if (p > 0 && p < 0.0005) return "< 0.1 %";
  if (p < 1 && p > 0.9995) return "> 99.9 %";
  return `${(100 * p).toFixed(1)} %`;
}

const whole = (number) => number.toLocaleString("en");
const plural = (number, word) => `${whole(number)} ${word}${number === 1 ? "" : "s"}`;

/** What a response says, as elements. `asked` are the questions of its request, in order. */
export function results(response, asked, roundTrip) {
  const cards = asked
    .filter(({ id }) => Object.hasOwn(response.answers, id))
    .map((one) => card(one, response.answers[one.id]));
  return [...cards, facts(response, roundTrip)];
}

/** A sentence for those who don't see the bars. */
export function spoken(response, asked) {
  const told = asked.map((one) => {
    const answer = response.answers[one.id];
    return answer ? `${one.id}: ${headline(one, answer).join(", ")}` : "";
  });
  return told.filter(Boolean).join(". ");
}

/** What the answer comes down to, and how sure that is. */
function headline(asked, answer) {
  if (answer.type === "noul") {
    return answer.noul >= 0.5 ? ["true", percent(answer.noul)] : ["false", percent(1 - answer.noul)];
  }
  if (answer.type === "choice") {
    return [answer.choice, percent(answer.probabilities[answer.choice])];
  }
  return [answer.score.toFixed(2), `on 0 to ${asked.score.length - 1}`];
}

function bars(asked, answer) {
  if (answer.type === "noul") return [["true", answer.noul], ["false", 1 - answer.noul]];
  if (answer.type === "score") {
    return asked.score.map((_, level) =>
      [`${level} · ${answer.legend[level]}`, answer.probabilities[level]]);
  }
  return asked.choice
    .map(({ name }) => [name, answer.probabilities[name]])
    .sort((one, other) => other[1] - one[1]);
}

function card(asked, answer) {
  const [value, much] = headline(asked, answer);
  const found = bars(asked, answer);
  const top = Math.max(...found.map(([, p]) => p));
  const list = (part) => h("ul", { class: "bars" }, part.map(([label, p]) => bar(label, p, p === top)));
  const more = found.slice(SHOWN);
  return h("article", { class: "answer", "aria-label": asked.id, "data-answer": asked.id },
    h("div", { class: "verdict" },
      h("h3", { class: "mono" }, asked.id),
      h("p", {}, h("strong", {}, value),
        answer.type === "score" ? h("span", { class: "much" }, much) : null)),
    list(found.slice(0, more.length > 1 ? SHOWN : found.length)),
    more.length > 1
      ? h("details", { class: "more" }, h("summary", {}, `${more.length} more`), list(more)) : null,
    notes(answer));
}

function bar(label, p, top) {
  const fill = h("span", { class: "fill" });
  fill.style.setProperty("--p", p);
  return h("li", { class: top ? "most" : undefined },
    h("span", { class: "name" }, label),
    h("span", { class: "track", "aria-hidden": "true" }, fill),
    h("span", { class: "p" }, percent(p)));
}

function notes(answer) {
  const told = [];
  const note = (name, text, title, bad) => told.push(
    h("li", { class: bad ? "bad" : undefined, title }, `${name} `, h("b", {}, text), bad || null));
  if (answer.confidence !== undefined) {
    note("confidence", answer.confidence.toFixed(2), "0: all options alike. 1: one option has it all.");
  }
  if (answer.x_legal_mass !== undefined) {
    const low = answer.x_legal_mass < 0.5;
    note("legal mass", percent(answer.x_legal_mass),
      "What the model would give to these answers if it could say anything.",
      low && ": it would rather say something else");
  }
  if (answer.x_accept !== undefined) {
    note("gate", answer.x_accept ? "accepted" : "not accepted", "Whether the card’s gate takes the answer.");
  }
  if (answer.x_given_by === "escalation") note("given by", "another model", "Escalated.");
  return told.length ? h("ul", { class: "notes" }, told) : null;
}

function facts(response, roundTrip) {
  const { input_tokens: input, x_cached_tokens: cached } = response.usage;
  const rows = [["model", response.model]];
  if (cached !== undefined) {
    rows.push(["tokens computed", whole(input - cached)], ["tokens cached", whole(cached)]);
  } else {
    rows.push(["tokens", whole(input)]);
  }
  if (response.x_latency_ms !== undefined) rows.push(["engine", `${milliseconds(response.x_latency_ms)}`]);
  rows.push(["there and back", milliseconds(roundTrip)]);
  return h("dl", { class: "facts" }, rows.map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export const milliseconds = (ms) => (ms < 9.95 ? `${ms.toFixed(1)} ms` : `${whole(Math.round(ms))} ms`);
export const counted = (answers) => plural(Object.keys(answers).length, "answer");
