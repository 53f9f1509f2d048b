"use strict";
// Two things a page cannot do by itself: answer a pointer over a landscape, and sort or search a table.
(() => {
  for (const figure of document.querySelectorAll("figure.landscape")) {
    const svg = figure.querySelector("svg");
    const tip = figure.querySelector(".tip");
    const here = svg.querySelector(".here");
    const { names, points } = JSON.parse(figure.querySelector("script").textContent);
    let current = null;

    const show = (point) => {
      current = point;
      here.setAttribute("cx", point[0]);
      here.setAttribute("cy", point[1]);
      here.removeAttribute("hidden");
      tip.replaceChildren(...names.map((name, k) => {
        const line = document.createElement("span");
        const value = document.createElement("b");
        value.textContent = point[2 + k];
        const [letter, index] = name.split("_", 2);
        if (letter === "λ" && index) {
          const lowered = document.createElement("sub");
          lowered.textContent = index;
          line.append(letter, lowered, " ", value);
        } else {
          line.append(`${name} `, value);
        }
        return line;
      }));
      tip.hidden = false;
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const room = svg.getBoundingClientRect().width - tip.offsetWidth;
      tip.style.left = `${Math.max(0, Math.min(room, point[0] * scale - tip.offsetWidth / 2))}px`;
      const above = point[1] * scale - tip.offsetHeight - 12;
      tip.style.top = `${above < 0 ? point[1] * scale + 12 : above}px`;
    };
    const hide = () => {
      tip.hidden = true;
      here.setAttribute("hidden", "");
    };
    const nearest = (x, y) => points.reduce((best, point) => {
      const distance = (point[0] - x) ** 2 + (point[1] - y) ** 2;
      return distance < best[0] ? [distance, point] : best;
    }, [Infinity, null])[1];

    const follow = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      show(nearest((event.clientX - box.left) * scale, (event.clientY - box.top) * scale));
    };
    svg.addEventListener("pointermove", follow);
    svg.addEventListener("pointerdown", follow);
    svg.addEventListener("pointerleave", () => { if (document.activeElement !== svg) hide(); });
    svg.addEventListener("blur", hide);
    svg.addEventListener("focus", () => {
      // Begin where the model stands.
      const star = svg.querySelector(".star");
      const box = star ? star.getBBox() : { x: 0, y: 0, width: 0, height: 0 };
      if (current === null) current = nearest(box.x + box.width / 2, box.y + box.height / 2);
      show(current);
    });
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    svg.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hide();
      const step = steps[event.key];
      if (!step || current === null) return;
      event.preventDefault();
      // The next point that way; a point aside counts as farther.
      let best = [Infinity, current];
      for (const point of points) {
        const along = (point[0] - current[0]) * step[0] + (point[1] - current[1]) * step[1];
        const aside = Math.abs((point[0] - current[0]) * step[1]) + Math.abs((point[1] - current[1]) * step[0]);
        const far = names.length === 2 ? along : along + 10 * aside;
        if (along > 0.5 && far < best[0]) best = [far, point];
      }
      show(best[1]);
    });
  }

  for (const listing of document.querySelectorAll(".listing")) {
    const table = listing.querySelector("table");
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const isNumber = head.dataset.kind === "number";
        const was = head.getAttribute("aria-sort");
        // Numbers begin with the largest, names with the first.
        const order = was === null ? (isNumber ? "descending" : "ascending")
          : was === "ascending" ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const names = new Intl.Collator(undefined, { numeric: true });
        rows.sort((a, b) => sign * (isNumber
          ? Number(a.cells[column].dataset.value) - Number(b.cells[column].dataset.value)
          : names.compare(a.cells[column].textContent, b.cells[column].textContent)));
        body.append(...rows);
      });
    });
    const find = listing.querySelector("input");
    const count = listing.querySelector("output");
    find.addEventListener("input", () => {
      const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of rows) {
        const text = `${row.cells[0].textContent}\n${row.cells[1].textContent}`.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        shown += row.hidden ? 0 : 1;
      }
      count.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
    });
  }
})();
