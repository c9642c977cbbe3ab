// What the pages do beyond forms: predictions while a slider moves, files that are dropped, progress, one click.
// Nothing is stored in the browser, and nothing is asked of any other server. Without it all forms still work.
"use strict";
document.documentElement.classList.add("js");

// --- columns: show the fields of the chosen kind, fill in a template of bounds ---
for (const box of document.querySelectorAll("[data-column]")) {
  const kind = box.querySelector("[data-kind]"), used = box.querySelector("[type=checkbox]");
  const show = () => {
    box.classList.toggle("unused", !used.checked);
    for (const part of box.querySelectorAll("[data-for]")) {
      part.classList.toggle("hidden", !part.dataset.for.split(" ").includes(kind.value));
    }
  };
  kind.addEventListener("change", show);
  used.addEventListener("change", show);
  show();
}
for (const button of document.querySelectorAll("[data-fill]")) {
  button.addEventListener("click", () => {
    for (const side of ["lower", "upper", "measure"]) {
      document.getElementById(`${side}_${button.dataset.fill}`).value = button.dataset[side];
    }
    document.getElementById(`lower_${button.dataset.fill}`).focus();
  });
}

// --- question: show what belongs to the chosen one ---
const questions = [...document.querySelectorAll("[data-question]")];
const showQuestion = () => {
  const chosen = questions.find(each => each.checked);
  for (const part of document.querySelectorAll("[data-when]")) {
    part.classList.toggle("hidden", !chosen || !part.dataset.when.split(" ").includes(chosen.value));
  }
};
questions.forEach(each => each.addEventListener("change", showQuestion));
if (questions.length) showQuestion();

// --- privacy: sliders, and the prediction beside them: by formulas at once, simulated when the slider rests ---
const live = document.querySelector("[data-live]");
if (live) {
  const panel = document.getElementById("panel");
  let asked = 0, rest = 0;
  const ask = async fine => {
    const number = ++asked;
    const fields = new URLSearchParams({ fine: fine ? "yes" : "no" });
    for (const name of ["epsilon", "delta", "people"]) {
      if (live.elements[name]) fields.set(name, live.elements[name].value);
    }
    try {
      const answer = await fetch(`${live.dataset.live}?${fields}`);
      const text = await answer.text();
      if (number !== asked || !answer.ok) return; // the slider has moved on, or a number is half typed
      panel.innerHTML = text; // a part of a page of this server, with every text escaped
      panel.dataset.fine = fine ? "yes" : "no";
    } catch { /* the server has ended: the page says what it said before */ }
  };
  const changed = () => {
    clearTimeout(rest);
    ask(false);
    rest = setTimeout(() => ask(true), 400);
  };
  for (const slider of live.querySelectorAll("[data-log]")) {
    const field = live.elements[slider.dataset.log];
    const toSlider = () => {
      const value = parseFloat(field.value);
      if (value > 0) slider.value = Math.log10(value);
      slider.setAttribute("aria-valuetext", field.value);
    };
    slider.addEventListener("input", () => {
      const value = 10 ** slider.value;
      field.value = Number(value.toPrecision(slider.dataset.log === "delta" ? 1 : 2));
      slider.setAttribute("aria-valuetext", field.value);
      changed();
    });
    field.addEventListener("input", () => { toSlider(); changed(); });
    toSlider();
  }
  live.elements.people.addEventListener("input", changed);
  if (live.elements.people.value) rest = setTimeout(() => ask(true), 100);
}

// --- a file that is dropped or chosen ---
const drop = document.querySelector("[data-drop]");
if (drop) {
  const said = drop.querySelector(".said"), choose = drop.querySelector("[type=file]");
  const send = async file => {
    if (!file) return;
    said.textContent = `Copying ${file.name} into the folder …`;
    try {
      const answer = await fetch(drop.dataset.drop + encodeURIComponent(file.name), { method: "POST", body: file });
      const found = await answer.json();
      if (found.error) said.textContent = found.error;
      else location.assign(`${drop.dataset.open}${encodeURIComponent(found.project)}/columns`);
    } catch { said.textContent = "The file could not be copied. Is the studio still running?"; }
  };
  choose.addEventListener("change", () => send(choose.files[0]));
  drop.addEventListener("dragover", event => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", event => { event.preventDefault(); drop.classList.remove("over"); send(event.dataTransfer.files[0]); });
}

// --- progress of a release ---
const progress = document.querySelector("[data-progress]");
if (progress) {
  const bar = progress.querySelector("progress"), said = progress.querySelector(".said");
  const look = async () => {
    try {
      const found = await (await fetch(progress.dataset.progress)).json();
      if (found.state !== "running") { location.reload(); return; }
      if (found.done !== null) bar.value = found.done;
      const rows = found.rows && found.of ? `, row ${found.rows.toLocaleString("en")} of ${found.of.toLocaleString("en")}` : "";
      said.textContent = found.pass
        ? `The release is being made. Pass ${found.pass}${found.passes ? ` of about ${found.passes}` : ""}${rows}.`
        : "The release is being made. The command is starting.";
    } catch { said.textContent = "The studio does not answer. The release goes on all the same."; }
    setTimeout(look, 500);
  };
  setTimeout(look, 300);
}

// --- one click is one request; the server sees to it as well ---
for (const form of document.querySelectorAll("[data-once]")) {
  form.addEventListener("submit", event => {
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = "yes";
    form.querySelector("button").textContent = "Starting …";
  });
}
