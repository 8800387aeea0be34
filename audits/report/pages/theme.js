"use strict";
(() => {
  // Light or dark: the system decides until the reader does; the charts take the colour of the text around them.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const chosen = () => document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const name = () => { button.textContent = chosen() === "dark" ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = chosen() === "dark" ? "light" : "dark";
    name();
  });
  dark.addEventListener("change", name);
  name();
})();
