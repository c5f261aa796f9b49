"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const SPAN = 300e3; // ms that the charts show

  // ---- numbers for people ----
  const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const none = "–";
  const count = (n) => grouped.format(n);
  const rate = (n) => (n > 0 && n < 9.95 ? n.toFixed(1) : count(n));
  const part = (n) => (Number.isInteger(n) ? count(n) : n.toFixed(1));
  function time(s) {
    if (s === null || s === undefined) return none;
    if (s === 0) return "0 ms";
    if (s < 0.001) return Math.round(s * 1e6) + " µs";
    if (s < 0.00995) return (s * 1e3).toFixed(1) + " ms";
    if (s < 0.9995) return Math.round(s * 1e3) + " ms";
    if (s < 9.95) return s.toFixed(1) + " s";
    if (s < 120) return Math.round(s) + " s";
    return age(s);
  }
  function age(s) {
    s = Math.max(0, Math.floor(s));
    const d = Math.floor(s / 86400), h = Math.floor(s / 3600) % 24, m = Math.floor(s / 60) % 60;
    if (d > 0) return d + " d " + h + " h";
    if (h > 0) return h + " h " + m + " min";
    if (m > 0) return m + " min";
    return s + " s";
  }
  const STATES = {
    connecting: "Connecting", serving: "Serving", paused: "Paused", down: "No database",
    draining: "Draining", stuck: "Not answering", lost: "No contact",
  };

  // ---- elements ----
  function el(tag, attrs, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  }
  function svg(tag, attrs, ...children) {
    const e = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(attrs || {})) e.setAttribute(k, v);
    e.append(...children);
    return e;
  }
  const text = (id, s) => { const e = $(id); if (e.textContent !== s) e.textContent = s; };

  // ---- charts ----
  // A series is { name, cls, of(sample) -> number or null, area, stack }.
  let samples = [];
  let end = 0;      // ms: the right edge of the charts
  let hover = null; // ms: the moment under the pointer
  const charts = [];

  function nice(top, base) {
    if (!(top > 0)) return base;
    const unit = Math.pow(10, Math.floor(Math.log10(top)));
    for (const m of [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10]) if (m * unit >= top * 1.02) return Math.max(base, m * unit);
    return Math.max(base, 20 * unit);
  }

  function nearest(t) {
    let best = null;
    for (const s of samples) if (best === null || Math.abs(s.t - t) < Math.abs(best.t - t)) best = s;
    return best !== null && Math.abs(best.t - t) < 2500 ? best : null;
  }

  function chart(id, base, format, seriesOf) {
    const fig = $(id), plot = fig.querySelector(".plot"), legend = fig.querySelector(".legend");
    const root = svg("svg", { role: "img" });
    plot.append(root);
    const draw = () => {
      const w = plot.clientWidth, h = plot.clientHeight, foot = 18;
      const series = seriesOf();
      const x = (t) => ((t - (end - SPAN)) / SPAN) * w;
      let top = 0;
      for (const s of samples) {
        let sum = 0;
        for (const q of series) {
          const v = q.of(s) || 0;
          sum = q.stack ? sum + v : v;
          top = Math.max(top, sum);
        }
      }
      top = nice(top, base);
      const y = (v) => h - foot - (v / top) * (h - foot - 18);
      const parts = [];
      for (let i = 0; i <= 2; i++) {
        const v = (top * i) / 2;
        parts.push(svg("line", { x1: 0, x2: w, y1: y(v), y2: y(v), class: i === 0 ? "axis" : "grid" }));
      }
      for (let m = 4; m >= 0; m--) {
        const at = x(end - m * 60e3);
        parts.push(svg("text", { x: m === 0 ? w : at, y: h - 3, "text-anchor": m === 0 ? "end" : "middle" }, m === 0 ? "now" : "−" + m + " min"));
      }
      let floor = samples.map(() => 0);
      for (const q of series) {
        const values = samples.map((s, i) => { const v = q.of(s); return v === null || v === undefined ? null : v + (q.stack ? floor[i] : 0); });
        for (const run of runs(values)) {
          const line = run.map((i) => x(samples[i].t).toFixed(1) + " " + y(values[i]).toFixed(1));
          if (q.stack || q.area) {
            const back = run.slice().reverse().map((i) => x(samples[i].t).toFixed(1) + " " + y(q.stack ? floor[i] : 0).toFixed(1));
            parts.push(svg("path", { d: "M" + line.concat(back).join("L") + "Z", class: q.stack ? "stack " + q.cls : "fill " + q.cls }));
          }
          if (!q.stack) parts.push(svg("path", { d: "M" + line.join("L") + (line.length === 1 ? "h.1" : ""), class: "line " + q.cls }));
        }
        if (q.stack) floor = values.map((v, i) => (v === null ? floor[i] : v));
      }
      for (let i = 1; i <= 2; i++) {
        const v = (top * i) / 2;
        parts.push(svg("text", { x: 0, y: y(v) - 3, class: "label" }, format(v)));
      }
      const at = hover === null ? null : nearest(hover);
      if (at !== null) parts.push(svg("line", { x1: x(at.t), x2: x(at.t), y1: 18, y2: h - foot, class: "cross" }));
      root.setAttribute("viewBox", "0 0 " + Math.max(w, 1) + " " + Math.max(h, 1));
      root.replaceChildren(...parts);

      const shown = at || samples[samples.length - 1];
      legend.replaceChildren(...series.map((q) => el("span", {}, swatch(q), q.name, el("b", {}, shown ? format(q.of(shown)) : none))));
      if (at !== null) legend.append(el("span", { class: "faint" }, Math.round((end - at.t) / 1000) + " s ago"));
      root.setAttribute("aria-label", series.map((q) => q.name + " " + (shown ? format(q.of(shown)) : none)).join(", "));
    };
    plot.addEventListener("pointermove", (e) => {
      const box = plot.getBoundingClientRect();
      hover = end - SPAN + ((e.clientX - box.left) / box.width) * SPAN;
      drawAll();
    });
    plot.addEventListener("pointerleave", () => { hover = null; drawAll(); });
    charts.push(draw);
  }

  // runs are the indices of values that belong together: a gap in time breaks a line.
  function runs(values) {
    const list = [];
    let run = null;
    for (let i = 0; i < values.length; i++) {
      if (values[i] === null) { run = null; continue; }
      if (run === null || samples[i].t - samples[i - 1].t > 2500) list.push((run = []));
      run.push(i);
    }
    return list;
  }

  function swatch(q) {
    return q.stack
      ? svg("svg", { viewBox: "0 0 18 10", "aria-hidden": "true" }, svg("rect", { x: 3, width: 12, height: 10, rx: 2, class: q.cls }))
      : svg("svg", { viewBox: "0 0 18 10", "aria-hidden": "true" }, svg("path", { d: "M0 5H18", class: "line " + q.cls }));
  }

  // Reasons keep their colour while the page is open; the last one stands for all others.
  const COLOURS = 7;
  const known = ["queue_age", "queue_full", "no_server", "max_client_conn", "displaced", "queue_wait"];
  const rateOrNone = (n) => (n === null || n === undefined ? none : rate(n) + "/s");
  function reasonSeries() {
    const seen = new Set();
    for (const s of samples) for (const r of Object.keys(s.reasons || {})) seen.add(r);
    for (const r of [...seen].sort()) if (!known.includes(r)) known.push(r);
    const list = known.slice(0, COLOURS).filter((r) => seen.has(r)).map((r) => ({
      name: r, cls: "s" + known.indexOf(r), stack: true, of: (s) => (s.reasons || {})[r] || 0,
    }));
    const rest = known.slice(COLOURS).filter((r) => seen.has(r));
    if (rest.length > 0) list.push({ name: rest.length === 1 ? rest[0] : "others", cls: "s" + COLOURS, stack: true,
      of: (s) => rest.reduce((n, r) => n + ((s.reasons || {})[r] || 0), 0) });
    return list.length > 0 ? list : [{ name: "nobody", cls: "s" + COLOURS, stack: true, of: () => 0 }];
  }

  chart("c-rate", 10, rateOrNone, () => [
    { name: "served", cls: "blue", area: true, of: (s) => s.served },
    { name: "answered in time", cls: "green", of: (s) => s.useful },
    { name: "refused", cls: "red", of: (s) => s.refused },
  ]);
  chart("c-wait", 0.001, time, () => [
    { name: "half wait less than", cls: "blue", of: (s) => s.p50 },
    { name: "99 % less than", cls: "red", of: (s) => s.p99 },
  ]);
  chart("c-reasons", 10, rateOrNone, reasonSeries);
  chart("c-queue", 10, (n) => (n === null || n === undefined ? none : count(n)), () => [
    { name: "waiting", cls: "red", of: (s) => s.waiting },
    { name: "running", cls: "blue", area: true, of: (s) => s.running },
  ]);
  const drawAll = () => charts.forEach((draw) => draw());
  new ResizeObserver(drawAll).observe(document.querySelector(".charts"));

  // ---- what stands still: tiles, bars, tables ----
  function tiles(d) {
    const last = samples[samples.length - 1];
    text("t-served", last ? rate(last.served) : none);
    text("t-served-sub", last ? bytes(last.sent) + "/s to clients" : "\u00a0");
    text("t-refused", last ? rate(last.refused) : none);
    const all = last ? last.served + last.refused : 0;
    text("t-refused-sub", all > 0 ? percent(last.refused / all) + " of what came" : "\u00a0");
    $("t-refused").classList.toggle("hot", Boolean(last && last.refused > 0));
    text("t-wait", last ? time(last.p50) : none);
    text("t-wait-sub", last && last.p99 !== null ? "99 % less than " + time(last.p99) : "\u00a0");
    const c = d.clients, up = d.upstreams || [], w = d.workloads || [];
    const sum = (k) => up.reduce((n, u) => n + u[k], 0);
    text("t-waiting", count(sum("waiting")));
    const oldest = w.reduce((n, x) => Math.max(n, x.oldest), 0);
    text("t-waiting-sub", oldest > 0 ? "the oldest for " + time(oldest) : "nobody");
    text("t-slots", count(sum("running")) + " of " + count(sum("slots")));
    // What was done for nobody is known when it ends, so that one second says little.
    const lately = samples.slice(-10), vain = lately.reduce((n, s) => n + (s.wasted || 0), 0) / Math.max(1, lately.length);
    text("t-slots-sub", vain >= 0.05 ? rate(vain) + " of them for nobody" : "of " + count(sum("budget")) + " server connections");
    $("t-slots-sub").classList.toggle("hot", vain >= 0.05);
    text("t-clients", count(c.active + c.waiting + c.idle));
    text("t-clients-sub", "of " + count(c.limit) + (c.login > 0 ? ", " + count(c.login) + " logging in" : ", " + count(c.idle) + " idle"));
  }
  const percent = (p) => (p > 0 && p < 0.0095 ? (p * 100).toFixed(1) : Math.round(p * 100)) + " %";
  function bytes(n) {
    if (n < 1e3) return Math.round(n) + " B";
    if (n < 1e6) return (n / 1e3).toFixed(n < 1e4 ? 1 : 0) + " kB";
    if (n < 1e9) return (n / 1e6).toFixed(n < 1e7 ? 1 : 0) + " MB";
    return (n / 1e9).toFixed(1) + " GB";
  }

  function track(pieces, whole) {
    const t = el("span", { class: "track" });
    for (const [cls, n] of pieces) {
      if (!(n > 0)) continue;
      const i = el("i", { class: cls });
      i.style.flexBasis = Math.min(100, (100 * n) / Math.max(whole, n)) + "%";
      t.append(i);
    }
    return t;
  }

  const CONNECTIONS = [["active", "active"], ["idle", "idle"], ["login", "logging in"], ["closing", "closing"], ["cancelling", "held for a cancel"]];
  function upstream(u) {
    const box = el("div", { class: "upstream" });
    const head = el("div", { class: "head" }, el("b", {}, u.name), el("span", { class: "faint" }, u.host || "not connected yet"));
    if (u.state !== "serving") head.append(el("b", { class: "hot" }, STATES[u.state]));
    const used = CONNECTIONS.reduce((n, [k]) => n + u[k], 0);
    const keys = el("div", { class: "keys" }, ...CONNECTIONS.map(([k, name]) => el("span", {}, el("i", { class: k }), el("b", {}, count(u[k])), name)));
    const budget = el("div", { class: "bar" }, el("span", {}, "Connections"), track(CONNECTIONS.map(([k]) => [k, u[k]]), u.budget),
      el("span", { class: "n" }, count(used) + " of " + count(u.budget)));
    if (u.budget_sum) budget.title = u.budget_sum;
    box.append(head,
      el("div", { class: "bar" }, el("span", {}, "Slots"), track([["active", u.running]], u.slots), el("span", { class: "n" }, count(u.running) + " of " + count(u.slots))),
      budget, keys);
    if (u.last_error) box.append(el("p", { class: "error" }, "Last login failed: " + u.last_error));
    return box;
  }

  function cell(s, cls) { return el("td", { class: cls || "", title: s }, s); }
  function number(s, hot) { return el("td", { class: "n" + (hot ? " hot" : "") }, s); }
  const MODES = { dry_run: ["dry run", "Nothing is refused for the order of the queue; what would have been is counted."], off: ["off", "Nothing is refused for the order of the queue."] };
  const STANDING = "The queue has not been short for a while: more comes than the slots can end. Until it is, the newest go first and the oldest are refused.";
  function badges(w) {
    const list = [];
    if (w.standing) list.push(el("span", { class: "badge hot", title: STANDING }, "standing"));
    const mode = MODES[w.guard];
    if (mode) list.push(el("span", { class: "badge amber", title: mode[1] }, mode[0]));
    if (w.queue && w.queue !== "guard") list.push(el("span", { class: "badge", title: "The order of the queue" }, w.queue));
    return list;
  }
  // Classes have lines of their own where there is more to say than the workload's line does.
  function classes(w) {
    const list = w.classes || [];
    const plain = list.length === 1 && list[0].name === "critical" && !(list[0].would > 0);
    return plain ? [] : list.map(classLine);
  }
  function classLine(c) {
    const name = el("td", { class: "sub", colspan: 4 }, c.name);
    if (c.standing) name.append(el("span", { class: "badge hot", title: STANDING }, "standing"));
    const would = c.would > 0 ? rate(c.would) + "/s would have been refused" : "";
    return el("tr", { class: "class" }, name, el("td", { class: "wide amber" }, would), number(count(c.waiting)),
      number(c.waiting > 0 ? time(c.oldest) + " of " + time(c.max_wait) : none), number(rate(c.served)), number(rate(c.refused), c.refused > 0));
  }
  function inVain(list) {
    const vain = list.reduce((n, w) => n + (w.in_vain || 0), 0), all = list.reduce((n, w) => n + w.refused_all, 0);
    if (vain === 0 || all === 0) return "";
    return count(vain) + " of " + count(all) + " refusals since the start (" + percent(vain / all) + ") were in vain: a slot became free in time after all.";
  }
  function workload(w) {
    const extra = w.borrowed >= 0.5 ? ", " + part(w.borrowed) + " borrowed" : w.lent >= 0.5 ? ", " + part(w.lent) + " lent" : "";
    const scale = Math.max(w.part, w.running, 1);
    const bar = el("div", { class: "bar" }, track([["active", Math.min(w.running, w.part)], ["idle", Math.max(0, w.running - w.part)]], scale),
      el("span", { class: "n" }, count(w.running) + " of " + part(w.part) + extra));
    const name = cell(w.name);
    name.append(...badges(w));
    return el("tr", {}, name, cell(w.upstream), cell(w.mode), number(count(w.clients)), el("td", { class: "wide" }, bar),
      number(count(w.waiting) + " of " + count(w.max_waiting)), number(w.waiting > 0 ? time(w.oldest) + " of " + time(w.max_wait) : none),
      number(rate(w.served)), number(rate(w.refused), w.refused > 0));
  }
  function tenant(t, most) {
    const bar = el("div", { class: "bar" }, track([["active", t.slots]], most), el("span", { class: "n" }, rate(t.slots)));
    return el("tr", {}, cell(t.tenant || none), cell(t.role), cell(t.workload), cell(t.class), number(count(t.waiting)), number(count(t.running)),
      el("td", { class: "wide" }, bar), number(rate(t.served)), number(rate(t.refused), t.refused > 0));
  }
  function tenants(list, left) {
    $("who").hidden = list.length === 0;
    const most = list.reduce((n, t) => Math.max(n, t.slots), 0.001);
    rows("tenants", list.map((t) => tenant(t, most)), 9, "");
    text("tenants-more", more(left, "tenants"));
  }
  function refusal(r) {
    const others = !r.workload && !r.database && !r.role && !r.application;
    return el("tr", {}, cell(r.reason || "others"), cell(r.workload || (others && r.reason ? "others" : none)), cell(r.database || none), cell(r.role || none), cell(r.application || none), cell(r.tenant || none),
      number(count(r.recent), r.recent > 0), number(count(r.n)), number(age(r.ago) + " ago"));
  }
  function rows(id, list, columns, empty) {
    $(id).replaceChildren(...(list.length > 0 ? list : [el("tr", {}, el("td", { class: "none", colspan: columns }, empty))]));
  }
  const more = (n, what) => (n > 0 ? "and " + count(n) + " more " + what : "");

  function show(d) {
    text("version", d.version || "");
    text("uptime", d.uptime ? "up " + age(d.uptime) : "");
    state(d.state || "connecting", d.messages || []);
    if (!d.clients || !d.upstreams) return;
    tiles(d);
    $("upstreams").replaceChildren(...d.upstreams.map(upstream));
    if (d.more_upstreams > 0) $("upstreams").append(el("p", { class: "empty" }, more(d.more_upstreams, "upstreams")));
    rows("workloads", (d.workloads || []).flatMap((w) => [workload(w), ...classes(w)]), 9, "No workload is in use yet.");
    text("workloads-more", more(d.more_workloads, "with less to do"));
    tenants(d.tenants || [], d.more_tenants || 0);
    text("in-vain", inVain(d.workloads || []));
    rows("refusals", (d.refusals || []).map(refusal), 9, "Nobody has been refused.");
    text("refusals-more", more(d.more_refusals, "kinds of them"));
    const hints = (d.hints || []).flatMap((h) => [el("dt", {}, h.reason), el("dd", {}, h.text)]);
    $("hints").replaceChildren(...(hints.length > 0 ? hints : [el("dd", { class: "faint" }, "Nothing was refused in the last minutes.")]));
    text("updated", "As of " + new Date(d.now).toLocaleTimeString());
  }

  function state(name, messages) {
    $("state").dataset.state = name;
    text("state-text", STATES[name] || name);
    document.title = name === "serving" ? "pgweir" : (STATES[name] || name) + " – pgweir";
    const b = $("banner");
    b.dataset.state = name;
    b.hidden = messages.length === 0;
    text("banner", messages.join("\n"));
  }

  // ---- the poll ----
  let lost = 0; // when contact was lost, by this machine's clock
  async function poll() {
    const since = samples.length > 0 ? samples[samples.length - 1].t : 0;
    try {
      const answer = await fetch("status.json?since=" + since, { signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error("HTTP " + answer.status);
      const d = await answer.json();
      lost = 0;
      // Samples that are older than the newest shown were asked for after a restart of pgweir.
      samples = samples.concat((d.samples || []).filter((s) => s.t > since)).slice(-d.keep);
      end = Math.max(d.now || 0, samples.length > 0 ? samples[samples.length - 1].t : 0);
      show(d);
    } catch (e) {
      lost = lost || Date.now();
      state("lost", ["No answer from pgweir for " + age((Date.now() - lost) / 1000) + ". What is below is from before."]);
    }
    drawAll();
    setTimeout(poll, 1000);
  }
  poll();
})();
