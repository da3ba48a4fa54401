// Keeps what the server wrote up to date, copies flags, and filters rows by name.

const REFRESH_MS = 15_000;

async function refresh() {
  if (document.hidden) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  if (!answer?.ok) return;
  const newest = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const part of document.querySelectorAll("[data-live]")) {
    const written = newest.getElementById(part.id);
    if (written && !part.contains(document.activeElement)) replaceWords(part, written);
  }
  document.dispatchEvent(new Event("refreshed"));
}

// Charts stay as they are: only what stands before and after them is replaced.
function replaceWords(part, written) {
  const charts = new Map([...part.querySelectorAll("[data-chart]")].map((one) => [one.dataset.chart, one]));
  for (const one of written.querySelectorAll("[data-chart]")) {
    const drawn = charts.get(one.dataset.chart);
    if (drawn) one.replaceWith(drawn);
  }
  part.replaceChildren(...written.childNodes);
  filterRows();
}

function filterRows() {
  const box = document.querySelector("[data-filter]");
  if (!box) return;
  const rows = document.querySelectorAll(`#${box.dataset.filter} [data-name]`);
  for (const row of rows)
    row.hidden = !row.dataset.name.toLowerCase().includes(box.value.trim().toLowerCase());
}

async function copy(button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.parentElement.querySelector("code"));
    button.textContent = "Selected: press Ctrl-C";
  }
  setTimeout(() => (button.textContent = label), 3000);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) copy(button);
});
document.addEventListener("input", (event) => {
  if (event.target.matches("[data-filter]")) filterRows();
});
setInterval(refresh, REFRESH_MS);
