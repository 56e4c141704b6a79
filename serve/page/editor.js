// The questions: cards that are edited in place. `changed` is called after every edit.
import { $, fit, h, say, unique } from "./dom.js";
import { TYPES, freshId, question } from "./request.js";

const LIMIT = { choice: 255, score: 10 };
const ASKS = {
  noul: ["Statement", "The customer asks for a refund."],
  choice: ["Question", "Which team should answer?"],
  score: ["Question", "How angry is the customer?"],
};

/** Edits `request.questions`; `draw` shows a request that is new as a whole. */
export class Editor {
  constructor(changed) {
    this.place = $("questions");
    this.changed = changed;
  }

  draw(request) {
    this.request = request;
    this.place.replaceChildren(...request.questions.map((asked) => this.card(asked)));
    this.count();
  }

  add(type) {
    const asked = question(type, { id: freshId(this.request, type) });
    this.request.questions.push(asked);
    const card = this.card(asked);
    this.place.append(card);
    this.edited();
    card.querySelector("[data-place=instructions] textarea").focus();
    say(`Question ${asked.id} added.`);
  }

  remove(asked) {
    const list = this.request.questions;
    const index = list.indexOf(asked);
    list.splice(index, 1);
    this.place.children[index].remove();
    this.edited();
    const near = this.place.children[Math.min(index, list.length - 1)];
    (near ? near.querySelector("input") : document.querySelector("[data-add]")).focus();
    say(`Question ${asked.id} removed. ${this.counted()}`);
  }

  edited() {
    this.count();
    this.changed();
  }

  counted() {
    const many = this.request.questions.length;
    return many === 1 ? "1 question" : `${many} questions`;
  }

  count() {
    $("count").textContent = this.request.questions.length > 1 ? `${this.counted()}, one pass` : "";
  }

  card(asked) {
    const legend = h("legend", { class: "unseen" });
    const remove = h("button", { type: "button", class: "icon", onclick: () => this.remove(asked) }, "×");
    const name = () => {
      legend.textContent = `Question ${asked.id || "without an id"}`;
      remove.setAttribute("aria-label", `Remove question ${asked.id}`);
    };
    name();
    const id = field("id", "Id", h("input", {
      value: asked.id, spellcheck: "false", autocomplete: "off", autocapitalize: "off", class: "mono",
      oninput: (event) => { asked.id = event.target.value; name(); this.edited(); },
    }));
    const rest = h("div", { class: "rest" });
    const fill = () => rest.replaceChildren(this.instructions(asked), this.criteria(asked));
    const select = h("select", {
      onchange: (event) => { asked.type = event.target.value; fill(); this.edited(); },
    }, Object.entries(TYPES).map(([value, text]) => h("option", { value }, text)));
    select.value = asked.type;
    fill();
    return h("fieldset", { class: "card question", "data-key": asked.key },
      legend, h("div", { class: "qhead" }, id, field("type", "Type", select), remove), rest);
  }

  instructions(asked) {
    const [label, example] = ASKS[asked.type];
    const area = h("textarea", {
      rows: 1, value: asked.instructions, placeholder: example,
      oninput: (event) => { asked.instructions = event.target.value; fit(area); this.edited(); },
    });
    requestAnimationFrame(() => fit(area));
    return field("instructions", label, area);
  }

  criteria(asked) {
    return asked.type === "noul" ? this.sides(asked) : this.rows(asked);
  }

  sides(asked) {
    return h("div", { class: "sides", "data-place": "criteria" },
      ["true", "false"].map((side) => {
        const made = field("side", `Counts as ${side}`, h("input", {
          value: asked.noul[side], placeholder: "optional", autocomplete: "off",
          oninput: (event) => { asked.noul[side] = event.target.value; this.edited(); },
        }));
        made.dataset.index = side;
        return made;
      }));
  }

  rows(asked) {
    const choice = asked.type === "choice";
    const what = choice ? "option" : "level";
    const list = asked[asked.type];
    const box = h("div", { class: "rows", "data-place": "criteria", role: "group",
      "aria-label": choice ? "Options" : "Levels, lowest first" });
    const redraw = (focus) => {
      box.replaceChildren(
        h("p", { class: "label", "aria-hidden": "true" }, choice ? "Options" : "Levels, lowest first"),
        ...list.map((_, index) => this.row(asked, index, redraw)),
        h("button", {
          type: "button", class: "link", disabled: list.length >= LIMIT[asked.type],
          onclick: () => {
            list.push(choice ? { name: "", text: "" } : "");
            redraw(list.length - 1);
            this.edited();
          },
        }, `+ ${choice ? "Option" : "Level"}`));
      if (focus !== undefined) {
        box.querySelectorAll(`[data-place=${what}]`)[focus].querySelector("input").focus();
      }
    };
    redraw();
    return box;
  }

  row(asked, index, redraw) {
    const choice = asked.type === "choice";
    const list = asked[asked.type];
    const what = choice ? "option" : "level";
    const number = choice ? index + 1 : index;
    const input = (label, value, placeholder, set, properties = {}) => h("input", {
      "aria-label": label, value, placeholder, autocomplete: "off", ...properties,
      oninput: (event) => { set(event.target.value); this.edited(); },
    });
    const controls = choice
      ? [
        input(`Name of option ${number}`, list[index].name, "name", (text) => { list[index].name = text; }, {
          class: "mono", spellcheck: "false", autocapitalize: "off",
          onpaste: (event) => this.paste(event, list, index, redraw),
        }),
        input(`When option ${number} applies`, list[index].text, "when it applies (optional)",
          (text) => { list[index].text = text; }),
      ]
      : [
        h("span", { class: "level", "aria-hidden": "true" }, String(index)),
        input(`What level ${number} means`, list[index], "what this level means",
          (text) => { list[index] = text; }),
      ];
    const remove = h("button", {
      type: "button", class: "icon", "aria-label": `Remove ${what} ${number}`, disabled: list.length <= 2,
      onclick: () => {
        list.splice(index, 1);
        redraw(Math.min(index, list.length - 1));
        this.edited();
        say(`Removed. ${list.length} ${what}s.`);
      },
    }, "×");
    return h("div", { class: `field row ${what}`, "data-place": what, "data-index": index }, controls, remove);
  }

  /** Several lines become several options; what follows a tab or ": " says when one applies. */
  paste(event, list, index, redraw) {
    const lines = event.clipboardData.getData("text").split(/\r?\n/).filter((line) => line.trim());
    if (lines.length < 2) return;
    event.preventDefault();
    const made = lines.map((line) => {
      const [, name, text = ""] = line.match(/^(.*?)(?:(?:\t|: )(.*))?$/);
      return { name: name.trim(), text: text.trim() };
    });
    list.splice(index, list[index].name ? 0 : 1, ...made);
    list.splice(LIMIT.choice);
    redraw(Math.min(index + made.length, list.length) - 1);
    this.edited();
    say(`${made.length} options pasted.`);
  }
}

/** A labelled control, at a place where what is wrong with it can be said. */
function field(place, label, control) {
  control.id = unique(place);
  return h("div", { class: `field ${place}`, "data-place": place },
    h("label", { for: control.id }, label), control);
}
