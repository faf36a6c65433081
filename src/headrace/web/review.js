// One item at a time. Everything of others is set as text, never as markup. A verdict is on disk before the next item shows.
"use strict";

const at = (id) => document.getElementById(id);
const keys = { a: "accept", r: "reject", s: "skip" };
let shown = null;
let isBusy = false;
let failed = null;

const reviewer = () => at("reviewer").value.trim() || "reviewer";
const draftKey = () => `headrace-draft-${shown ? shown.item : ""}`;

async function ask(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  const reply = await fetch(path, options);
  const value = await reply.json().catch(() => ({ error: `the server answered ${reply.status}` }));
  if (!reply.ok) throw new Error(value.error || `the server answered ${reply.status}`);
  return value;
}

async function doing(work) {
  if (isBusy) return;
  isBusy = true;
  at("said").textContent = "";
  try {
    await work();
  } catch (error) {
    at("said").textContent = `Nothing was lost, and nothing was saved: ${error.message}`;
  } finally {
    isBusy = false;
  }
}

const text = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

function show(found) {
  if (found.progress) {
    const { mine, seen, total } = found.progress;
    at("progress").textContent = `${mine} by you, ${seen} of ${total} seen`;
    at("bar").value = total ? seen / total : 0;
  }
  shown = found.next;
  document.body.dataset.item = shown ? shown.item : "";
  const record = at("record");
  record.replaceChildren();
  at("editor").hidden = true;
  if (!shown) {
    at("name").textContent = "";
    at("stratum").textContent = "";
    at("answer").textContent = "";
    at("note").value = "";
    record.textContent = "All that is yours has been seen. Thank you.";
    return;
  }
  at("name").textContent = String(text(shown.id));
  at("stratum").textContent = [shown.stratum, shown.confidence === null ? "" : `sure by ${Math.round(100 * shown.confidence)} %`, shown.status === "done" ? "" : shown.status]
    .filter(Boolean).join(", ");
  if (shown.record && typeof shown.record === "object") {
    const list = document.createElement("dl");
    for (const [name, value] of Object.entries(shown.record)) {
      const term = document.createElement("dt");
      const definition = document.createElement("dd");
      term.textContent = name;
      definition.textContent = text(value);
      list.append(term, definition);
    }
    record.append(list);
  } else {
    record.textContent = shown.record === null ? "The record is no longer where it was read." : shown.record;
  }
  at("answer").textContent = shown.status === "done" ? text(shown.answer) : `${shown.error || ""}\n\n${shown.raw || ""}`;
  const draft = JSON.parse(localStorage.getItem(draftKey()) || "{}");
  if (found.written) {  // of the verdict that was taken back
    draft.note = found.written.note || "";
    if (found.written.correction !== null) draft.correction = text(found.written.correction);
    localStorage.setItem(draftKey(), JSON.stringify(draft));
  }
  at("note").value = draft.note || "";
  if (draft.correction !== undefined) edit(draft.correction);
  at("item").focus();
  at("record").parentElement.scrollTop = 0;
  mark();
}

function edit(value) {
  at("editor").hidden = false;
  at("correction").value = value;
}

function keepDraft() {
  if (!shown) return;
  const draft = { note: at("note").value };
  if (!at("editor").hidden) draft.correction = at("correction").value;
  localStorage.setItem(draftKey(), JSON.stringify(draft));
}

function judge(verdict) {
  if (!shown || shown.status !== "done") {
    if (shown) at("said").textContent = "This one has no answer to judge: Esc leads back, f to the next.";
    return;
  }
  const given = { reviewer: reviewer(), item: shown.item, verdict, note: at("note").value };
  if (verdict === "correct") {
    const written = at("correction").value;
    given.correction = written;
    if (typeof shown.answer !== "string") {
      try {
        given.correction = JSON.parse(written);
      } catch {
        at("said").textContent = "The answer is JSON; what you wrote is not.";
        return;
      }
    }
  }
  const key = draftKey();
  doing(async () => {
    const next = await ask("api/verdict", given);
    localStorage.removeItem(key);
    show(next);
  });
}

const following = () => doing(async () => show(await ask(`api/next?reviewer=${encodeURIComponent(reviewer())}`)));
const undo = () => doing(async () => show(await ask("api/undo", { reviewer: reviewer() })));

function lookAtFailed() {
  doing(async () => {
    if (failed === null || !failed.length) failed = (await ask("api/failed")).items;
    const item = failed.shift();
    if (item === undefined) at("said").textContent = "Nothing failed, was quarantined or rejected.";
    else show(await ask(`api/item?item=${item}`));
  });
}

function mark() {
  const wanted = at("search").value.toLowerCase();
  let hits = 0;
  for (const place of [...document.querySelectorAll("#record dd"), at("answer")]) {
    const whole = place.textContent;
    place.replaceChildren(whole);
    if (!wanted) continue;
    const lower = whole.toLowerCase();
    const parts = [];
    let from = 0;
    for (let found = lower.indexOf(wanted); found >= 0 && hits < 5000; found = lower.indexOf(wanted, from)) {
      const hit = document.createElement("mark");
      hit.textContent = whole.slice(found, found + wanted.length);
      parts.push(whole.slice(from, found), hit);
      from = found + wanted.length;
      hits += 1;
    }
    if (parts.length) place.replaceChildren(...parts, whole.slice(from));
  }
  at("hits").textContent = wanted ? `${hits} found` : "";
  document.querySelector("mark")?.scrollIntoView({ block: "center" });
}

function begin() {
  if (shown && shown.status === "done") {
    if (at("editor").hidden) edit(text(shown.answer));
    at("correction").focus();
    at("correction").select();
  }
}

document.addEventListener("keydown", (event) => {
  const inField = ["INPUT", "TEXTAREA"].includes(event.target.tagName);
  if (event.key === "Escape" && inField) {
    event.target.blur();
    at("item").focus();
  } else if (event.key === "Escape" && shown && shown.status !== "done") {
    following();  // back from what failed to what is to be judged
  } else if (event.key === "Enter" && event.ctrlKey && event.target.id === "correction") {
    event.preventDefault();
    judge("correct");
  } else if (!inField && !event.ctrlKey && !event.metaKey && !event.altKey) {
    const key = event.key.toLowerCase();
    const act = keys[key] ? () => judge(keys[key])
      : { c: begin, u: undo, f: lookAtFailed, n: () => at("note").focus(), "/": () => at("search").focus() }[key];
    if (act) {
      event.preventDefault();
      act();
    }
  }
});

for (const verdict of Object.values(keys)) at(verdict).addEventListener("click", () => judge(verdict));
at("correct").addEventListener("click", () => (at("editor").hidden ? begin() : judge("correct")));
at("undo").addEventListener("click", undo);
at("failed").addEventListener("click", lookAtFailed);
at("search").addEventListener("input", mark);
at("note").addEventListener("input", keepDraft);
at("correction").addEventListener("input", keepDraft);
at("reviewer").addEventListener("change", () => {
  localStorage.setItem("headrace-reviewer", reviewer());
  following();
});
at("reviewer").value = new URLSearchParams(location.search).get("reviewer") || localStorage.getItem("headrace-reviewer") || "";
following();
