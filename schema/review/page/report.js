"use strict";
(() => {
  const form = document.getElementById("filters");
  if (!form) return;
  const left = document.getElementById("left");
  const boxes = [...form.elements.show];
  const { table, text } = form.elements;
  const tablesOf = (element) => new Set(element.dataset.tables.split(" "));
  const links = new Map([...document.querySelectorAll(".history a")].map((link) => [link.hash, link.parentElement]));
  const revisions = [...document.querySelectorAll("article.revision")].map((element) => ({
    element,
    entry: links.get("#" + element.id),
    tables: tablesOf(element),
    groups: [...element.querySelectorAll("[data-group]")],
    locks: [...element.querySelectorAll("[data-table]")],
    items: [...element.querySelectorAll("[data-severity]")].map((item) => ({
      element: item,
      severity: item.dataset.severity,
      tables: tablesOf(item),
      counted: item.matches(".finding"),
    })),
    words: null,
  }));
  const findings = document.querySelectorAll(".finding").length;
  const some = (number, of, what) => `${number} of ${of} ${what}${of === 1 ? "" : "s"}`;

  function matches(revision, wanted) {
    if (!wanted) return true;
    revision.words ??= revision.element.textContent.toLowerCase();
    return revision.words.includes(wanted);
  }

  function apply() {
    const shown = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const number = table.selectedOptions[0].dataset.number;
    const wanted = text.value.trim().toLowerCase();
    let revisionsLeft = 0;
    let findingsLeft = 0;
    for (const revision of revisions) {
      let about = 0;
      let visible = 0;
      let counted = 0;
      for (const item of revision.items) {
        const concerned = number === undefined || item.tables.has(number);
        const on = concerned && shown.has(item.severity);
        item.element.hidden = !on;
        about += concerned;
        visible += on;
        counted += on && item.counted;
      }
      for (const group of revision.groups) group.hidden = !group.querySelector("[data-severity]:not([hidden])");
      for (const lock of revision.locks) lock.classList.toggle("meant", lock.dataset.table === number);
      const on =
        (visible > 0 || (about === 0 && shown.has("clean"))) &&
        (number === undefined || revision.tables.has(number)) &&
        matches(revision, wanted);
      revision.element.hidden = !on;
      revision.entry?.classList.toggle("folded", !on);
      revisionsLeft += on;
      findingsLeft += on ? counted : 0;
    }
    left.textContent =
      `Showing ${some(revisionsLeft, revisions.length, "revision")}, ${some(findingsLeft, findings, "finding")}.` +
      (revisionsLeft ? "" : " Nothing matches: “Show everything” takes the filters away.");
    left.classList.toggle("filtered", filtered());
  }

  const filtered = () => boxes.some((box) => !box.checked) || table.value !== "" || text.value.trim() !== "";

  // The filters are the fragment that begins with a question mark; what is looked at stays in it as `at`.
  function write(at = "") {
    const state = new URLSearchParams();
    if (boxes.some((box) => !box.checked)) {
      state.set("show", boxes.filter((box) => box.checked).map((box) => box.value).join(","));
    }
    if (table.value) state.set("table", table.value);
    if (text.value.trim()) state.set("text", text.value.trim());
    if (at && filtered()) state.set("at", at);
    const fragment = filtered() ? "#?" + state : at && "#" + at;
    try {
      history.replaceState(null, "", fragment || location.href.split("#")[0]);
    } catch {
      // Some viewers show the page in a frame whose address cannot be set; the filters work all the same.
    }
  }

  function reveal(id) {
    const target = document.getElementById(id);
    if (!target) return;
    if (target.closest("[hidden]")) clear();
    if (target.matches("details")) target.open = true;
    target.scrollIntoView();
  }

  function clear() {
    form.reset();
    apply();
  }

  function read() {
    if (!location.hash.startsWith("#?")) {
      const id = location.hash.slice(1);
      if (id) {
        reveal(id);
        write(id);
      } else {
        clear();
      }
      return;
    }
    const state = new URLSearchParams(location.hash.slice(2));
    const shown = state.has("show") ? state.get("show").split(",") : null;
    for (const box of boxes) box.checked = !shown || shown.includes(box.value);
    table.value = state.get("table") ?? "";
    if (table.selectedIndex < 0) table.value = "";
    text.value = state.get("text") ?? "";
    apply();
    if (state.has("at")) reveal(state.get("at"));
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    apply();
    write();
  });
  form.addEventListener("reset", () => setTimeout(() => {
    apply();
    write();
  }));
  addEventListener("hashchange", read);

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    for (const each of opened) each.open = true;
  });
  addEventListener("afterprint", () => {
    for (const each of opened) each.open = false;
  });

  form.hidden = left.hidden = false;
  apply();
  if (location.hash) read();
})();
