"use strict";
// Replaces the numbers every five seconds. Without an answer they turn pale.
setInterval(async () => {
  const main = document.querySelector("main");
  if (document.hidden || String(document.getSelection())) return;
  try {
    const answer = await fetch(location.pathname, { signal: AbortSignal.timeout(4000) });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    main.replaceWith(page.querySelector("main"));
  } catch {
    main.classList.add("stale");
  }
}, 5000);
