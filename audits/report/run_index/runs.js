"use strict";
(() => {
  const words = document.getElementById("words"), audit = document.getElementById("audit");
  const state = document.getElementById("state"), count = document.getElementById("count");
  const rows = [...document.querySelectorAll(".runs tbody tr")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const choose = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = (!audit.value || row.dataset.audit === audit.value) && (!state.value || row.dataset.state === state.value)
        && wanted.every((word) => texts.get(row).includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${rows.length} runs`;
  };
  for (const control of [words, audit, state]) control.addEventListener("input", choose);
  for (const element of document.querySelectorAll(".scripted")) element.hidden = false;
  choose();
})();
