// A table that scrolls can be reached, and then scrolled, by keyboard.
addEventListener("load", () => {
  for (const table of document.querySelectorAll(".bd-article table")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0;
  }
});
