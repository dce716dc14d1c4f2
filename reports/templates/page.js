document.querySelectorAll("[data-copy]").forEach(function (button) {
  button.addEventListener("click", function () {
    var text = document.getElementById(button.dataset.copy);
    var done = function () { button.textContent = "Copied"; setTimeout(function () { button.textContent = "Copy"; }, 1500); };
    var select = function () { getSelection().selectAllChildren(text); if (document.execCommand("copy")) done(); };
    navigator.clipboard ? navigator.clipboard.writeText(text.textContent).then(done, select) : select();
  });
});
addEventListener("beforeprint", function () {
  document.querySelectorAll("details.card").forEach(function (card) { card.open = true; });
});
function openTarget() {
  var id = location.hash.slice(1);
  try { id = decodeURIComponent(id); } catch (e) { return; }
  for (var at = document.getElementById(id); at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();

// Who points at an operation, or reaches it by the keyboard, sees in its card all that is about it.
["mouseover", "focusin"].forEach(function (event) {
  document.addEventListener(event, function (e) {
    var at = e.target.closest("[data-op]"), card = e.target.closest(".card");
    document.querySelectorAll(".lit").forEach(function (x) { x.classList.remove("lit"); });
    if (at && card) card.querySelectorAll("[data-op]").forEach(function (x) { x.classList.toggle("lit", x.dataset.op === at.dataset.op); });
  });
});

// A key or a snapshot leaves only the operations in the timeline that have to do with it; so does a word in the field above it.
var timeline = document.querySelector(".timeline");
if (timeline) {
  var field = document.createElement("input"), label = document.createElement("label"), count = document.createElement("span");
  var boxes = Array.from(timeline.querySelectorAll(".op"));
  field.type = "search";
  field.placeholder = "key 7, a snapshot, an operation, a kind";
  count.setAttribute("role", "status");
  label.append("Show only ", field, count);
  label.className = "filter";
  timeline.before(label);
  var filter = function () {
    var words = field.value.trim().replace(/^key +/i, "k").split(/\s+/).filter(Boolean), kept = 0, first = null;
    boxes.forEach(function (box) {
      var tokens = box.dataset.f.split(" "), text = box.textContent;
      var fits = words.every(function (w) {
        return /^k\d/.test(w) ? tokens.includes(w) : tokens.some(function (t) { return t === "s" + w || (w.length > 3 && t.startsWith("s" + w)); }) || text.includes(w);
      });
      box.classList.toggle("out", !fits);
      if (fits) { kept++; first = first || box; }
    });
    count.textContent = words.length ? " " + kept + " of " + boxes.length : "";
    if (words.length && first) timeline.scrollTop = first.offsetTop - 40;
  };
  field.addEventListener("input", filter);
  document.querySelectorAll("[data-pick]").forEach(function (pick) {
    pick.addEventListener("click", function () { field.value = pick.dataset.pick.replace(/^k/, "key ").replace(/^s/, ""); filter(); });
  });
}
