document.querySelectorAll("table.sortable").forEach(function (table) {
  table.querySelectorAll("th[data-sort]").forEach(function (head) {
    head.addEventListener("click", function () {
      var column = head.cellIndex, down = head.getAttribute("aria-sort") === "ascending", body = table.tBodies[0];
      table.querySelectorAll("th[aria-sort]").forEach(function (h) { h.removeAttribute("aria-sort"); });
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      var value = function (row) { var v = row.cells[column].dataset.value; return v === "" || v === undefined ? null : isNaN(v) ? v : +v; };
      Array.from(body.rows).sort(function (a, b) {
        var x = value(a), y = value(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return (x < y ? -1 : x > y ? 1 : 0) * (down ? -1 : 1);
      }).forEach(function (row) { body.appendChild(row); });
    });
  });
});
