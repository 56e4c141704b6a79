"""How report.html looks: light and dark, at any width, with nothing from outside."""

CSS = """
:root { color-scheme: light dark; --ink: #16191d; --soft: #5b6470; --line: #d9dee4;
  --paper: #ffffff; --card: #f5f7f9; --accent: #1d6fd8; --good: #0b7a4b; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8ebee; --soft: #a2acb8; --line: #353c45; --paper: #14171b; --card: #1d2228;
    --accent: #6aa9ff; --good: #4cc38a; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: break-word; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 64px; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 44px 0 10px; padding-top: 14px;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; line-height: 1.3; margin: 0 0 6px; }
p { margin: 8px 0 12px; max-width: 46rem; }
.lead p { color: var(--soft); margin: 2px 0; }
.warning { border-left: 4px solid var(--bad); background: var(--card); padding: 10px 14px;
  font-weight: 600; max-width: none; }
.cards { display: grid; gap: 12px; margin: 14px 0 18px;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 150px), 1fr)); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 12px 14px; }
.card b { display: block; font-size: 1.7rem; line-height: 1.2; letter-spacing: -0.01em;
  font-variant-numeric: tabular-nums; }
.card.good b, td.good { color: var(--good); }
.card.bad b, td.bad { color: var(--bad); }
.card span { display: block; color: var(--soft); font-size: 0.85rem; line-height: 1.4; }
.card .label { color: var(--ink); font-size: 0.95rem; }
.pictures { display: grid; gap: 22px 28px; margin: 16px 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 330px), 1fr)); }
figure { margin: 0; min-width: 0; max-width: 520px; }
figure svg { display: block; width: 100%; height: auto; color: var(--ink); }
figcaption { color: var(--soft); font-size: 0.85rem; line-height: 1.45; }
.scroll { overflow-x: auto; margin: 4px 0 18px; }
table { border-collapse: collapse; font-size: 0.875rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
.caption { color: var(--soft); font-size: 0.85rem; margin: 14px 0 4px; }
th, td { padding: 6px 12px 6px 0; text-align: right; vertical-align: top;
  border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
td { white-space: nowrap; }
th.word, td.word { text-align: left; }
td.long { white-space: normal; min-width: 15rem; max-width: 34rem; }
@media (max-width: 600px) {
  main { padding: 18px 14px 48px; } h1 { font-size: 1.5rem; } th, td { padding-right: 10px; } }
@media print { main { max-width: none; } figure { break-inside: avoid; } }
"""
"""The whole style sheet."""
