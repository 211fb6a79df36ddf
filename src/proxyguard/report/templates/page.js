"use strict";
(() => {
  // Nothing of a page may be folded away on paper.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const one of folded) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of folded) one.open = false; });

  // The largest number of invalid releases among those chosen, in whole numbers (theory 3):
  // shift[r] = E_r - 1/alpha in one common unit, order = places by rising shift.
  function invalidAtMost(shift, order, chosen) {
    let sum = 0n;
    for (let r = 0; r < shift.length; r++) if (!chosen[r] && shift[r] < 0n) sum += shift[r];
    let k = 0, most = 0;
    for (const r of order) {
      if (!chosen[r]) continue;
      sum += shift[r];
      k += 1;
      if (sum < 0n) most = k;
    }
    return most;
  }

  function words(chosen, valid, sure) {
    if (chosen === 0) return "Choose releases to see how many of them are valid.";
    const of = chosen === 1 ? "your 1 release" : `your ${chosen} releases`;
    return `At least ${valid} of ${of} ${valid === 1 ? "is" : "are"} valid ` +
      `(with ${sure} confidence, for every choice at once).`;
  }

  // "all", "none", "below limits", "1-50", "NAME", "estimate below 0.03", "REQUIREMENT below x";
  // parts are joined by commas. Returns null for a part that means nothing here.
  function places(part, data) {
    const R = data.names.length, every = [...Array(R).keys()];
    if (part === "all") return every;
    if (part === "none" || part === "") return [];
    if (part === "below limits")
      return every.filter((r) => data.estimates[r].every((e, j) => e < data.limits[j]));
    const below = /^(.*\S)\s+below\s+([-+.\de]+)$/i.exec(part);
    if (below && Number.isFinite(Number(below[2]))) {
      const x = Number(below[2]), name = below[1].toLowerCase();
      if (name === "estimate" || name === "estimates")
        return every.filter((r) => data.estimates[r].every((e) => e < x));
      const j = data.requirements.findIndex((one) => one.toLowerCase().startsWith(name));
      return j < 0 ? null : every.filter((r) => data.estimates[r][j] < x);
    }
    const named = data.names.indexOf(part);
    if (named >= 0) return [named];
    const range = /^#?(\d+)(?:\s*-\s*#?(\d+))?$/.exec(part);
    if (!range) return null;
    const first = Number(range[1]), last = Number(range[2] ?? range[1]);
    if (first < 1 || last > R || first > last) return null;
    return every.slice(first - 1, last);
  }

  function start(box) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const rows = [...box.querySelectorAll("tbody tr")];
    const answer = box.querySelector(".pg-answer");
    const problem = box.querySelector(".pg-problem");
    const [numerator, denominator] = data.alpha.map(BigInt);
    const unit = BigInt(data.unit.split("/")[1]);
    const shift = data.evalues.map((e) => BigInt(e) * numerator - unit * denominator);
    const order = [...shift.keys()].sort((a, b) => (shift[a] < shift[b] ? -1 : shift[a] > shift[b] ? 1 : 0));

    const head = document.createElement("th");
    head.scope = "col";
    head.className = "pg-tick";
    head.textContent = "chosen";
    box.querySelector("thead tr").prepend(head);
    const boxes = rows.map((row, r) => {
      const cell = document.createElement("td"), one = document.createElement("input");
      cell.className = "pg-tick";
      one.type = "checkbox";
      one.tabIndex = r === 0 ? 0 : -1;
      one.setAttribute("aria-label", `release ${data.names[r]}`);
      cell.append(one);
      row.prepend(cell);
      return one;
    });

    function update() {
      const chosen = boxes.map((one) => one.checked);
      const size = chosen.filter(Boolean).length;
      answer.textContent = words(size, size - invalidAtMost(shift, order, chosen), data.sure);
    }
    function choose(text) {
      const found = text.split(",").map((part) => places(part.trim(), data));
      const unknown = found.indexOf(null);
      problem.textContent = unknown < 0 ? "" :
        `“${text.split(",")[unknown].trim()}” is no release, range or condition here.`;
      if (unknown >= 0) return;
      const wanted = new Set(found.flat());
      boxes.forEach((one, r) => { one.checked = wanted.has(r); });
      update();
    }
    function visible() { return boxes.filter((_, r) => !rows[r].hidden); }
    function filter(text) {
      const part = text.trim().toLowerCase();
      rows.forEach((row, r) => { row.hidden = !data.names[r].toLowerCase().includes(part); });
      const shown = visible();
      boxes.forEach((one) => { one.tabIndex = one === shown[0] ? 0 : -1; });
    }
    // One tab stop for the whole list; the arrows move within it.
    box.querySelector("tbody").addEventListener("keydown", (event) => {
      const shown = visible(), here = shown.indexOf(event.target);
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10,
        Home: -shown.length, End: shown.length }[event.key];
      if (here < 0 || step === undefined) return;
      event.preventDefault();
      const next = shown[Math.min(shown.length - 1, Math.max(0, here + step))];
      for (const one of shown) one.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      next.scrollIntoView({ block: "nearest" });
    });
    box.querySelector("tbody").addEventListener("change", update);
    const command = box.querySelector(".pg-choose");
    box.querySelector(".pg-apply").addEventListener("click", () => choose(command.value));
    command.addEventListener("keydown", (event) => {
      if (event.key === "Enter") choose(command.value);
    });
    for (const one of box.querySelectorAll("button[data-choose]"))
      one.addEventListener("click", () => choose(one.dataset.choose));
    box.querySelector(".pg-filter").addEventListener("input", (event) => filter(event.target.value));
    for (const one of box.querySelectorAll(".pg-live")) one.hidden = false;
    update();
  }
  for (const box of document.querySelectorAll(".pg-picker")) start(box);
  for (const box of document.querySelectorAll(".pg-filtered")) {
    const rows = [...box.querySelectorAll("tbody tr")];
    // By name and verdict: every unresolved sentence says "not evidence of a violation".
    const texts = rows.map((row) =>
      [...row.querySelectorAll("th, .pg-key")].map((one) => one.textContent).join(" ").toLowerCase());
    box.querySelector(".pg-filter").addEventListener("input", (event) => {
      const part = event.target.value.trim().toLowerCase();
      rows.forEach((row, r) => { row.hidden = !texts[r].includes(part); });
    });
    box.querySelector(".pg-controls").hidden = false;
  }
})();
