// Sends forms without leaving the page, maps keys to buttons, and asks now and then what has changed.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const say = (text) => { const told = byId("told"); if (told) told.textContent = text; };
  let sending = false;

  function put(id, html) {
    const place = byId(id);
    if (place) place.innerHTML = html; // made by our templates, which escape everything
  }

  async function send(form, button) {
    if (sending) return;
    sending = true;
    document.body.classList.add("sending");
    const fields = new URLSearchParams(new FormData(form));
    if (button && button.name) fields.set(button.name, button.value);
    try {
      const answer = await fetch(form.action, { method: "POST", body: fields, headers: { "X-Fragment": "1" } });
      if (!answer.headers.get("content-type").startsWith("application/json")) {
        say((await answer.text()).slice(0, 300));
        location.reload();
        return;
      }
      const made = await answer.json();
      say(made.told);
      if (made.card) {
        put("card", made.card);
        put("status", made.status);
        byId("status").dataset.version = made.version;
        if (made.address) history.replaceState(null, "", made.address);
        const heading = byId("item-name");
        if (heading) heading.focus({ preventScroll: true });
        window.scrollTo({ top: 0 });
      }
      toast(made.told, !made.ok);
    } catch (error) {
      toast("Not saved: the server does not answer. Start it again, and repeat the step.", true);
    } finally {
      sending = false;
      document.body.classList.remove("sending");
    }
  }

  function toast(text, bad) {
    let place = byId("toast");
    if (!place) {
      place = document.createElement("div");
      place.id = "toast";
      place.setAttribute("aria-hidden", "true");
      document.body.append(place);
    }
    place.textContent = text;
    place.className = bad ? "bad show" : "show";
    if (bad) say(text);
    clearTimeout(place.timer);
    place.timer = setTimeout(() => { place.className = bad ? "bad" : ""; }, bad ? 8000 : 2200);
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!byId("card") || form.method !== "post") return;
    event.preventDefault();
    send(form, event.submitter);
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.matches("input, select, textarea")) {
      if (event.key === "Escape") target.blur();
      return;
    }
    const key = CSS.escape(event.key.toLowerCase());
    const button = document.querySelector(`button[data-key="${key}"]`);
    const field = document.querySelector(`[data-focus="${key}"]`);
    if (button && !event.repeat && !button.closest("[disabled]")) {
      event.preventDefault();
      button.form.requestSubmit(button);
    } else if (field) {
      event.preventDefault();
      field.focus();
    }
  });

  // once the first fit is done, the item on screen gets its figures, unless somebody is typing
  async function redraw() {
    const item = () => document.querySelector(".card")?.dataset.item;
    const before = item();
    if (before === undefined || document.activeElement.matches("input, select")) return;
    const answer = await fetch(`/item/${before}${location.search}`);
    const made = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("card");
    if (made && !sending && item() === before) put("card", made.innerHTML);
  }

  async function look() {
    const status = byId("status");
    if (status && !document.hidden && !sending) {
      try {
        const answer = await fetch(`/status?version=${encodeURIComponent(status.dataset.version)}`);
        if (answer.status === 200) {
          const made = await answer.json();
          const busy = status.querySelector(".stage.busy") !== null;
          const first = status.querySelector(".stage.first") !== null;
          put("status", made.status);
          status.dataset.version = made.version;
          if (made.told && busy) say(made.told);
          if (first && status.querySelector(".stage.first") === null) await redraw();
        }
      } catch (error) { /* the server is down: the next step says so */ }
    }
    setTimeout(look, 1200);
  }
  if (byId("status")) setTimeout(look, 1200);

  const here = document.querySelector("header [aria-current]");
  if (here) here.scrollIntoView({ block: "nearest", inline: "center" });
  const waiting = document.querySelector("[data-refresh]");
  if (waiting) setTimeout(() => location.reload(), 1000 * waiting.dataset.refresh);
  const address = document.querySelector("input.address");
  if (address) address.select();
})();
