// Small comforts; every page works without them.
"use strict";

// Empty fields and defaults stay out of addresses, so that a link to a question is short.
for (const form of document.querySelectorAll('form[method="get"]')) {
  form.addEventListener("submit", () => {
    const boxes = [...form.querySelectorAll('input[name="in"][type="checkbox"]')];
    const compares = form.querySelector('input[name="compare"]')?.checked;
    for (const field of form.elements) {
      const untouched = field.value === "" || (field.type === "number" && field.value === field.defaultValue && !location.search.includes(`${field.name}=`));
      const aside = field.name.startsWith("b_") && !compares;
      if (field.name !== "q" && field.type !== "submit" && field.type !== "hidden" && (untouched || aside)) field.disabled = true;
    }
    if (boxes.length && boxes.every((box) => box.checked)) boxes.forEach((box) => (box.disabled = true));
  });
}
// Back from a result page, the fields can be used again.
addEventListener("pageshow", () => {
  for (const field of document.querySelectorAll("form [name]:disabled")) field.disabled = false;
});

// "/" goes to the question, as on other pages for searching.
addEventListener("keydown", (event) => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
  const question = document.querySelector('input[type="search"]');
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && question) {
    event.preventDefault();
    question.focus();
    question.select();
  }
});

for (const link of document.querySelectorAll("[data-copy]")) {
  link.addEventListener("click", async (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    await navigator.clipboard.writeText(link.href);
    link.textContent = "Copied";
  });
}

// The word from the terminal is typed once; it is forgotten with the tab.
for (const field of document.querySelectorAll('input[name="token"]')) {
  field.value = sessionStorage.getItem("token") ?? "";
  field.form.addEventListener("submit", () => sessionStorage.setItem("token", field.value));
}
