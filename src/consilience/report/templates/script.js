"use strict";
// Sorting and filtering; the page is whole without it.
(() => {
  for (const bar of document.querySelectorAll(".controls")) bar.hidden = false;

  const valueOf = (row, column, numeric) => {
    const cell = row.cells[column];
    const text = cell.dataset.v ?? cell.textContent.trim();
    if (!numeric) return text.toLowerCase();
    const number = parseFloat(text.replace(/,/g, ""));
    return Number.isNaN(number) ? -Infinity : number;
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if ("still" in head.dataset) return;
      const numeric = head.classList.contains("num");
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        // numbers: largest first; text: a to z; a third click restores the order
        const first = numeric ? "descending" : "ascending";
        const second = numeric ? "ascending" : "descending";
        const now = head.getAttribute("aria-sort");
        const next = now === first ? second : now === second ? null : first;
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        if (next === null) return body.append(...original);
        head.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        const keyed = original.map((row, at) => [valueOf(row, column, numeric), at, row]);
        keyed.sort((a, b) => {
          if (a[0] === b[0]) return a[1] - b[1];
          const before = numeric ? a[0] < b[0] : a[0].localeCompare(b[0], undefined, { numeric: true }) < 0;
          return before ? -sign : sign;
        });
        body.append(...keyed.map((entry) => entry[2]));
      });
    });
  }

  const filter = (id) => {
    const table = document.getElementById(id);
    const wanted = document.querySelector(`[data-filter="${id}"]`).value.trim().toLowerCase();
    const flagged = document.querySelector(`[data-flagged="${id}"]`)?.checked ?? false;
    let left = 0;
    for (const row of table.tBodies[0].rows) {
      const titles = [...row.querySelectorAll("[title]")].map((element) => element.title);
      const text = `${row.textContent} ${titles.join(" ")}`.toLowerCase();
      row.hidden = !text.includes(wanted) || (flagged && !("flags" in row.dataset));
      left += !row.hidden;
    }
    const all = table.tBodies[0].rows.length;
    document.querySelector(`[data-count="${id}"]`).textContent = left === all ? "" : `${left} of ${all}`;
  };

  for (const input of document.querySelectorAll("[data-filter]"))
    input.addEventListener("input", () => filter(input.dataset.filter));
  for (const input of document.querySelectorAll("[data-flagged]"))
    input.addEventListener("change", () => filter(input.dataset.flagged));
})();
