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
