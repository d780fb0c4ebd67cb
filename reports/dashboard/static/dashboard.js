// Draws the charts of a page from the tables in it, and loads new rows when the server says that there are any.
// Without this script the page is its tables.
"use strict";

(() => {
  const colours = 8;
  const height = 300;
  const least = 3000; // milliseconds between two reloads of the panels
  const charts = new Map();

  const styled = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const written = {
    share: (value) => `${+(100 * value).toFixed(1)} %`,
    us: (value) => `${+(value / 1000).toFixed(2)} ms`,
    bps: (value) => `${+(value / 1e6).toFixed(1)} Mbit/s`,
  };

  function read(table) {
    const heads = [...table.tHead.rows[0].cells].slice(1);
    const rows = [...table.tBodies[0].rows];
    const number = (cell) => (cell.dataset.y === undefined ? null : Number(cell.dataset.y));
    return {
      times: rows.map((row) => Number(row.cells[0].dataset.x)),
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
        points: { show: read.times.length <= 60, size: 5 },
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
      const one = colour(0);
      lines.slice(0, 5).forEach((line, number) => Object.assign(line, { stroke: one, width: number === 2 ? 2.5 : 0.5 }));
      bands.push({ series: [5, 1], fill: `${one}26` }, { series: [4, 2], fill: `${one}40` });
    }
    return { columns, lines, bands };
  }

  function draw(section) {
    const table = section.querySelector("table[data-chart]");
    if (!table) return;
    const box = section.querySelector(".chart");
    const readout = section.querySelector(".readout");
    const known = read(table);
    const { columns, lines, bands } = series(known, table.dataset.chart);
    if (!lines.length) return;
    const format = written[table.dataset.unit] || ((value) => value.toLocaleString("en"));
    const span = known.times[known.times.length - 1] - known.times[0];
    const day = (seconds) => {
      const iso = new Date(seconds * 1000).toISOString();
      return span <= 3 * 86400 ? `${iso.slice(5, 10)} ${iso.slice(11, 16)}` : iso.slice(0, 10);
    };
    const axis = { stroke: styled("--caption"), grid: { stroke: styled("--edge"), width: 1 }, ticks: { stroke: styled("--edge") } };
    box.hidden = readout.hidden = false;
    box.replaceChildren();
    const chart = new uPlot(
      {
        width: box.clientWidth,
        height,
        bands,
        tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
        padding: [10, 44, 0, 0],
        scales: { x: span ? {} : { range: (_, low, high) => [low - 43200, high + 43200] }, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.05 : 1] } },
        cursor: { drag: { x: true, y: false }, points: { size: 7 } },
        legend: { live: false },
        series: [{}, ...lines],
        axes: [{ ...axis, space: 96, values: (_, ticks) => ticks.map(day) }, { ...axis, size: 78, label: table.dataset.y, labelSize: 20, values: (_, ticks) => ticks.map(format) }],
        hooks: {
          setCursor: [(one) => {
            if (one.cursor.idx !== null && one.cursor.idx !== undefined) readout.textContent = known.said(one.cursor.idx);
          }],
        },
      },
      [known.times, ...columns.map((column) => known.values[column])],
      box,
    );
    // The legend repeats the table's head; a screen reader reads the table.
    box.querySelector(".u-legend").setAttribute("aria-hidden", "true");
    readout.textContent = known.said(known.times.length - 1);
    let at = known.times.length - 1;
    box.onkeydown = (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -known.times.length, End: known.times.length }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      at = Math.max(0, Math.min(known.times.length - 1, at + step));
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
      if (close && details && !section.querySelector(".chart").hidden) details.open = false;
    }
  }

  async function refresh() {
    const answer = await fetch(location.href, { cache: "no-store" });
    if (!answer.ok) return false;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    const open = new Set([...document.querySelectorAll("details[open]")].map((one) => one.id));
    const focused = document.activeElement && document.activeElement.id;
    const panels = fresh.getElementById("panels");
    for (const details of panels.querySelectorAll("details")) details.open = open.has(details.id);
    document.getElementById("panels").replaceWith(document.adoptNode(panels));
    document.getElementById("until").replaceWith(document.adoptNode(fresh.getElementById("until")));
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
        // The next event asks again.
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
