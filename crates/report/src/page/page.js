"use strict";
// Opens a row's details; opens whatever folds around the target of a link.
for (const row of document.querySelectorAll("tr.row")) {
  const toggle = () => {
    const more = row.nextElementSibling;
    more.hidden = !more.hidden;
    row.classList.toggle("is-open-row", !more.hidden);
  };
  row.addEventListener("click", e => { if (!e.target.closest("a")) toggle(); });
  row.addEventListener("keydown", e => { if (e.key === "Enter") toggle(); });
}
const show = () => {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
  target.scrollIntoView({block: "center"});
};
addEventListener("hashchange", show);
show();
