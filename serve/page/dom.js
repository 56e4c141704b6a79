// Elements, what is said to screen readers, and the clipboard.

/** An element: properties (class, data-*, aria-*, on*: a listener) and children. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const $ = (id) => document.getElementById(id);

let next = 0;
/** An id that nothing else on the page has. */
export const unique = (stem) => `${stem}-${++next}`;

/** Tell screen readers, politely. */
export function say(text) {
  const place = $("spoken");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

/** A textarea as high as its text, up to a limit that the style sets. */
export function fit(area) {
  if (CSS.supports("field-sizing", "content")) return;
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight + 2}px`;
}

/** Put text on the clipboard; whether that went well. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No permission, or a page that isn't loaded securely: the old way.
    const before = document.activeElement;
    const area = h("textarea", { class: "unseen", "aria-hidden": "true", value: text });
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before?.focus();
    return done;
  }
}
