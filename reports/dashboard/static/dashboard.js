// Draws the charts of a page from its tables, and loads new rows when the server announces them. Without this script
// the page shows only the tables.
"use strict";

(() => {
  const colours = 8;
  const height = 300;
  const least = 3000; // milliseconds between two reloads of the panels
  const charts = new Map();

  const day = 86400; // seconds

  const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const units = {
    share: { factor: 100, digits: 1, name: "%" },
    us: { factor: 1e-3, digits: 2, name: "ms" },
    bps: { factor: 1e-6, digits: 1, name: "Mbit/s" },
  };

  function writer(table) {
    const unit = units[table.dataset.unit];
    return unit ? (value) => `${+(unit.factor * value).toFixed(unit.digits)} ${unit.name}` : (value) => value.toLocaleString("en");
  }

  function read(table) {
    const heads = [...table.tHead.rows[0].cells].slice(1);
    const rows = [...table.tBodies[0].rows];
    const number = (cell) => (cell.dataset.y === undefined ? null : Number(cell.dataset.y));
    return {
      heads: rows.map((row) => row.cells[0].textContent.trim()),
      times: rows.map((row) => Number(row.cells[0].dataset.x)),
      texts: heads.map((_, column) => rows.map((row) => row.cells[column + 1].textContent.trim())),
      labels: heads.map((head) => head.textContent.trim()),
      published: heads.map((head) => "published" in head.dataset),
      values: heads.map((_, column) => rows.map((row) => number(row.cells[column + 1]))),
      said: (at) => {
        const cells = [...rows[at].cells];
        const parts = heads.map((head, column) => [head.textContent.trim(), cells[column + 1].textContent.trim()]);
        const known = parts.filter(([, text]) => text).map(([label, text]) => `${label} ${text}`);
        return `${cells[0].textContent.trim()}: ${known.join("; ")}`;
      },
    };
  }

  function series(read, chart) {
    const colour = (number) => styled(`--line-${(number % colours) + 1}`);
    const columns = read.labels.map((_, column) => column).filter((column) => read.values[column].some((value) => value !== null));
    const lines = columns.map((column, number) => {
      const line = {
        label: read.labels[column],
        stroke: colour(number),
        width: 2,
        spanGaps: true,
        points: { show: read.times.length <= 60, size: 5, fill: styled("--paper") },
      };
      if (read.published[column]) {
        Object.assign(line, { stroke: styled("--soft"), dash: [6, 5], width: 1.5, points: { show: false } });
      }
      return line;
    });
    if (chart === "bars") {
      for (const line of lines) {
        Object.assign(line, { paths: uPlot.paths.bars({ size: [0.7, 40] }), fill: `${line.stroke}`, points: { show: false } });
      }
    }
    const bands = [];
    if (chart === "band" && lines.length >= 5) {
      const shade = colour(0);
      lines.slice(0, 5).forEach((line, number) => Object.assign(line, { stroke: shade, width: number === 2 ? 2.5 : 0.5 }));
      bands.push({ series: [5, 1], fill: `${shade}26` }, { series: [4, 2], fill: `${shade}40` });
    }
    return { columns, lines, bands };
  }

  function element(kind, text) {
    const made = document.createElement("span");
    made.className = kind;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Ticks from zero to the first round number that is not below the largest value.
  function ticks(most, factor) {
    const shown = most * factor || Math.max(1, factor);
    const power = 10 ** Math.floor(Math.log10(shown / 4));
    const step = [1, 2, 2.5, 5, 10].map((multiple) => multiple * power).find((size) => size >= (shown / 4) * 0.999);
    return Array.from({ length: Math.ceil((shown / step) * 0.999) + 1 }, (_, number) => (number * step) / factor);
  }

  // Draws a line per item with a dot on one common axis; the items of a band have five values.
  function dots(box, table, items) {
    const { factor, name } = units[table.dataset.unit] || { factor: 1, name: "" };
    const every = items.flatMap((item) => [...item.values, item.published]).filter((value) => value !== null && value !== undefined);
    const marks = ticks(Math.max(...every), factor);
    const place = (value) => `${Math.max(0, (100 * value) / marks[marks.length - 1])}%`;
    const drawn = element("dots");
    drawn.setAttribute("aria-hidden", "true"); // the table has all values
    const add = (track, kind, value, until) => {
      if (value === null || value === undefined) return;
      const mark = element(kind);
      mark.style.left = place(value);
      if (until !== undefined) mark.style.width = place(until - value);
      track.append(mark);
    };
    const gridded = (track) => marks.forEach((value) => add(track, "dots-grid", value));
    for (const { label, text, values, published, colour } of items) {
      const track = element("dots-track");
      track.style.color = colour;
      gridded(track);
      if (values.length >= 5) {
        add(track, "dots-range", values[0], values[4]);
        add(track, "dots-half", values[1], values[3]);
      }
      add(track, "dots-published", published);
      add(track, "dots-dot", values[values.length >= 5 ? 2 : 0]);
      drawn.append(element("dots-name", label), track, element("dots-value", text));
    }
    const axis = element("dots-axis");
    for (const value of marks) {
      add(axis, "dots-tick", value);
      axis.lastChild.textContent = `${(+(factor * value).toPrecision(3)).toLocaleString("en")} ${name}`.trim();
    }
    drawn.append(element("dots-name"), axis, element("dots-value"), element("dots-name"), element("dots-label", table.dataset.y), element("dots-value"));
    box.removeAttribute("tabindex");
    box.replaceChildren(drawn);
  }

  // The rows of a table with a picture.
  function drawRows(box, readout, table, known) {
    const published = known.published.indexOf(true);
    const items = known.heads.map((label, row) => ({
      label,
      text: known.texts[0][row],
      values: [known.values[0][row]],
      published: published < 0 ? null : known.values[published][row],
      colour: styled("--line-1"),
    }));
    dots(box, table, items);
    readout.textContent = published < 0 ? "" : `Hollow: ${known.labels[published]}.`;
  }

  // A single period has no course over time: list its series below each other.
  function drawPeriod(box, readout, table, known) {
    const { columns, lines } = series(known, table.dataset.chart);
    const at = columns.map((column, number) => ({
      label: known.labels[column],
      text: known.texts[column][0],
      values: [known.published[column] ? null : known.values[column][0]],
      published: known.published[column] ? known.values[column][0] : null,
      colour: lines[number].stroke,
    }));
    const items = table.dataset.chart === "band" && at.length >= 5
      ? [{ ...at[2], values: at.slice(0, 5).map((entry) => entry.values[0]) }]
      : at;
    dots(box, table, items);
    readout.textContent = `${table.tHead.rows[0].cells[0].textContent.trim()}: ${known.heads[0]}`;
  }

  function draw(section) {
    const table = section.querySelector("table[data-chart]");
    if (!table) return;
    const box = section.querySelector(".chart");
    const readout = section.querySelector(".readout");
    const known = read(table);
    if (!known.values.flat().some((value) => value !== null)) return;
    box.hidden = readout.hidden = false;
    if (table.dataset.chart === "dots") drawRows(box, readout, table, known);
    else if (known.times.length === 1) drawPeriod(box, readout, table, known);
    else drawCourse(box, readout, table, known);
  }

  function drawCourse(box, readout, table, known) {
    const { columns, lines, bands } = series(known, table.dataset.chart);
    const format = writer(table);
    const last = known.times.length - 1;
    const whole = known.times.every((seconds) => seconds % day === 0);
    const written = (seconds) => {
      const iso = new Date(seconds * 1000).toISOString();
      return !whole && known.times[last] - known.times[0] <= 3 * day ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : iso.slice(0, 10);
    };
    const axis = { stroke: styled("--caption"), grid: { stroke: styled("--edge"), width: 1 }, ticks: { stroke: styled("--edge") } };
    box.replaceChildren();
    const chart = new uPlot(
      {
        width: box.clientWidth,
        height,
        bands,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        padding: [10, 44, 0, 0],
        scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
        cursor: { drag: { x: true, y: false }, points: { size: 7 } },
        legend: { show: !bands.length, live: false },
        series: [{}, ...lines],
        axes: [{ ...axis, space: 96, ...(whole ? { incrs: [1, 2, 7, 14, 28, 91, 182, 364].map((days) => days * day) } : {}), values: (_, ticks) => ticks.map(written) }, { ...axis, size: 78, label: table.dataset.y, labelSize: 20, labelFont: "600 11px sans-serif", values: (_, ticks) => ticks.map(format) }],
        hooks: {
          setCursor: [(plot) => {
            if (plot.cursor.idx !== null && plot.cursor.idx !== undefined) readout.textContent = known.said(plot.cursor.idx);
          }],
        },
      },
      [known.times, ...columns.map((column) => known.values[column])],
      box,
    );
    // The legend repeats the head of the table, which a screen reader reads.
    const legend = box.querySelector(".u-legend");
    if (legend) legend.setAttribute("aria-hidden", "true");
    readout.textContent = known.said(last);
    let at = last;
    box.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -known.times.length, End: known.times.length }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      at = Math.max(0, Math.min(last, at + step));
      chart.setCursor({ left: chart.valToPos(known.times[at], "x"), top: 10 });
      readout.textContent = known.said(at);
    };
    charts.set(box, chart);
  }

  function drawAll(close) {
    for (const chart of charts.values()) chart.destroy();
    charts.clear();
    for (const section of document.querySelectorAll("section.panel")) {
      draw(section);
      const details = section.querySelector("details");
      if (close && details && details.dataset.keep === undefined && !section.querySelector(".chart").hidden) details.open = false;
    }
  }

  async function refresh() {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) return false;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = new Set([...document.querySelectorAll("details[open]")].map((details) => details.id));
    const focused = document.activeElement && document.activeElement.id;
    for (const details of fresh.querySelectorAll("section.panel details")) details.open = open.has(details.id);
    for (const id of ["newest", "panels", "until"]) {
      const part = fresh.getElementById(id);
      if (part) document.getElementById(id).replaceWith(document.adoptNode(part));
    }
    document.body.dataset.stamp = fresh.body.dataset.stamp;
    drawAll(false);
    const before = focused && document.getElementById(focused);
    if (before) before.focus({ preventScroll: true });
    return true;
  }

  let asked = null;
  function refreshLater() {
    if (asked !== null) return;
    asked = setTimeout(async () => {
      try {
        await refresh();
      } catch {
        // The next event triggers another request.
      }
      asked = null;
    }, least);
  }

  function listen() {
    const source = new EventSource("/events");
    source.addEventListener("newest", (event) => {
      if (JSON.parse(event.data).stamp !== document.body.dataset.stamp) refreshLater();
    });
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(listen, 60000);
    };
  }

  drawAll(true);
  listen();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return;
    width = window.innerWidth;
    for (const [box, chart] of charts) chart.setSize({ width: box.clientWidth, height });
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(false));
})();
