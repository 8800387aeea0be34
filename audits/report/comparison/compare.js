"use strict";
(() => {
  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const worth = (row, place) => row.cells[place].dataset.sort ?? row.cells[place].textContent;

  for (const section of document.querySelectorAll("section")) {
    const table = section.querySelector("table.changes");
    if (!table) continue;
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const status = section.querySelector("[role=status]");
    const controls = section.querySelector(".controls");
    const typed = controls.querySelector("input");
    const selects = [...controls.querySelectorAll("select")];

    const filter = () => {
      const words = typed.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const row of rows) {
        const said = row.textContent.toLowerCase();
        const kept = words.every((word) => said.includes(word))
          && selects.every((select) => !select.selectedIndex || row.dataset[select.dataset.of] === select.value);
        row.hidden = !kept;
        count += kept;
      }
      status.textContent = `${count.toLocaleString("en")} ${count === 1 ? "row" : "rows"}`;
    };
    for (const select of selects) {
      for (const value of new Set(rows.map((row) => row.dataset[select.dataset.of]))) select.append(new Option(value, value));
      select.addEventListener("change", filter);
    }
    typed.addEventListener("input", filter);

    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, place) => {
      if (head.tagName !== "TH") return;
      const sort = document.createElement("button");
      sort.type = "button";
      sort.className = "sort";
      sort.append(...head.childNodes);
      head.append(sort);
      head.setAttribute("aria-sort", "none");
      sort.addEventListener("click", () => {
        const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
        for (const other of heads) if (other.tagName === "TH") other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
        const number = rows.length > 0 && "sort" in rows[0].cells[place].dataset;
        const compare = number ? (a, b) => a - b : natural;
        body.append(...rows.sort((a, b) => sign * compare(worth(a, place), worth(b, place))));
      });
    });
    controls.hidden = false;
  }
  document.documentElement.dataset.ready = "yes";
})();
