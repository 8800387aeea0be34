"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 100;
  const SVG = "http://www.w3.org/2000/svg";

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (value !== null) element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  };

  const hint = document.getElementById("hint");
  const showHint = (value, x, y) => {
    hint.hidden = value === null || value === undefined || value === "";
    if (hint.hidden) return;
    const list = make("dl");
    if (typeof value === "object") {
      for (const [key, text] of Object.entries(value)) list.append(make("dt", {}, key), make("dd", {}, String(text)));
      hint.replaceChildren(list);
    } else hint.replaceChildren(String(value));
    const box = hint.getBoundingClientRect();
    hint.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
    hint.style.top = `${y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 10) : y + 18}px`;
  };

  const refuse = () => Promise.reject(new Error("nothing is loaded from outside"));
  // Pictures of fields travel inside the page; any other address is refused.
  const inside = (uri) => (String(uri).startsWith("data:image/png;base64,") ? Promise.resolve({ href: uri }) : refuse());
  const loader = { load: refuse, sanitize: inside, http: refuse, file: refuse };

  // Small multiples have no width of their own to follow: they get as many columns as the page has room for.
  const fitted = ({ spec, shape, columns }, width, spare) => {
    const across = Math.max(1, Math.min(columns, Math.floor((width - (shape === "facet" ? 50 : 0)) / (shape === "grid" ? 175 : 190))));
    const panel = Math.floor((width - 65) / across) - 24;
    const inner = { alone: width, stack: Math.max(120, width - (width < 500 ? 150 : 200) + spare), facet: panel }[shape];
    const value = (name) => (name === "miles_columns" ? across : /width$/i.test(name) ? inner : undefined);
    const signals = (spec.signals || []).map((one) => (value(one.name) === undefined ? one : { ...one, value: value(one.name) }));
    return { ...spec, signals, ...(inner && "width" in spec ? { width: inner } : {}) };
  };

  // On a phone the title along an axis is wider than the axis: it ends where that ends, and has all room to the left, in
  // two lines where it needs more. Slanted names would run into each other there, and stand upright.
  const narrowed = (part, width) => {
    const along = (axis) => {
      if (axis.orient !== "bottom") return axis;
      const title = typeof axis.title === "string" && axis.title.length > width / 6.6 ? halved(axis.title) : axis.title;
      const upright = axis.labelAngle ? { labelAngle: 270, labelAlign: "right", labelBaseline: "middle" } : {};
      return { ...axis, ...(title ? { title, titleAnchor: "end" } : {}), ...upright };
    };
    return { ...part,
      ...(part.axes ? { axes: part.axes.map(along) } : {}),
      // Beside long names there is little room for the scale of colours above them.
      ...(part.legends ? { legends: part.legends.map((one) => ("gradientLength" in one ? { ...one, gradientLength: 90 } : one)) } : {}),
      ...(part.marks ? { marks: part.marks.map((mark) => narrowed(mark, width)) } : {}),
    };
  };
  const halved = (text) => {
    const cut = text.indexOf(" ", text.length / 2);
    return cut < 0 ? text : [text.slice(0, cut), text.slice(cut + 1)];
  };

  const drawn = new Map();
  const draw = async (figure) => {
    const { at } = figure;
    const place = document.getElementById(at);
    const width = Math.min(place.clientWidth, 960);
    const old = drawn.get(at);
    if (old && old.width === width) return;
    drawn.set(at, { width, view: old && old.view });
    if (old && old.view) old.view.finalize();
    place.replaceChildren();
    try {
      const tooltip = (_, event, item, value) => showHint(event ? value : null, event?.clientX, event?.clientY);
      const show = async (spare) => {
        const spec = fitted(figure, width, spare);
        const chart = width < 500 ? narrowed(spec, width) : spec;
        const view = new vega.View(vega.parse(chart, spec.config ? {} : data.config), { renderer: "svg", loader, tooltip });
        drawn.set(at, { width, view: await view.initialize(place).runAsync() });
        return width - place.querySelector("svg").width.baseVal.value;
      };
      const spare = await show(0);
      // How wide the names beside stacked panels are is only known once they are drawn.
      if (figure.shape === "stack" && Math.abs(spare) > 4) {
        drawn.get(at).view.finalize();
        place.replaceChildren();
        await show(spare);
      }
    } catch (error) {
      place.replaceChildren(make("p", {}, `This chart could not be drawn here (${error.message}); its picture is in the folder figures.`));
    }
  };
  // The drawing library travels deflated: it is most of the page.
  const unpacked = async () => {
    const bytes = Uint8Array.from(atob(document.getElementById("bundle").textContent), (letter) => letter.charCodeAt(0));
    const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    new Function(await new Response(plain).text())();
  };
  const drawAll = async () => {
    if (data.figures.length && !window.vega) await unpacked().catch(() => {});
    for (const figure of data.figures) await draw(figure);
    document.documentElement.dataset.charts = "drawn";
  };

  const unpack = (column, rows) => {
    if (Array.isArray(column)) return column;
    if ("all" in column) return new Array(rows).fill(column.all);
    const values = [];
    for (let i = 0; i < column.runs.length; i += 2) {
      for (let j = 0; j < column.runs[i + 1]; j++) values.push(column.runs[i]);
    }
    return values;
  };

  const opened = (packed) => {
    const table = { ...packed };
    for (const key of ["decimals", "value", "below", "above", "exact", "n", "method", "unit", "level", "faint", "notes", "scale"]) {
      table[key] = unpack(packed[key], packed.rows);
    }
    table.where = packed.where.map((column) => unpack(column.codes, packed.rows).map((code) => column.values[code]));
    table.point = (row) => (row in packed.odd ? packed.odd[row][0] : table.value[row] / 10 ** table.decimals[row]);
    table.ends = (row) => {
      if (row in packed.odd) return packed.odd[row].slice(1, 3);
      if (table.below[row] === null) return [null, null];
      const scale = 10 ** table.decimals[row];
      return [(table.value[row] - table.below[row]) / scale, (table.value[row] + table.above[row]) / scale];
    };
    table.pointText = (row) => (row in packed.odd ? packed.odd[row][3] : table.point(row).toFixed(table.decimals[row]));
    table.intervalText = (row) => {
      if (row in packed.odd) return packed.odd[row][4];
      const [low, high] = table.ends(row);
      if (low === null) return table.exact[row] ? "exact" : "no interval";
      return `${low.toFixed(table.decimals[row])} to ${high.toFixed(table.decimals[row])}`;
    };
    return table;
  };

  const one = (values) => (new Set(values).size === 1 ? values[0] : null);

  const line = (kind, attributes) => {
    const element = document.createElementNS(SVG, kind);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const glyph = (table, row) => {
    const [from, to] = table.axes[table.scale[row]];
    const at = (value) => (6 + 128 * Math.min(1, Math.max(0, (value - from) / (to - from)))).toFixed(1);
    const picture = line("svg", { class: "glyph", viewBox: "0 0 140 16", width: 140, height: 16, "aria-hidden": "true" });
    picture.append(line("line", { class: "axis", x1: 0, x2: 140, y1: 8, y2: 8 }));
    if (table.reference !== null) {
      picture.append(line("line", { class: "reference", x1: at(table.reference), x2: at(table.reference), y1: 1, y2: 15 }));
    }
    const [low, high] = table.ends(row);
    if (low !== null) picture.append(line("line", { class: "interval", x1: at(low), x2: at(high), y1: 8, y2: 8 }));
    picture.append(line("circle", { class: "point", cx: at(table.point(row)), cy: 8, r: 4 }));
    return picture;
  };

  const worded = (value, attributes = {}) => {
    const cell = make("td", { ...(value.length < 24 ? { class: "short" } : {}), ...attributes });
    // A long intersection may break after each part of it.
    const parts = String(value).split("&");
    parts.forEach((part, place) => cell.append(place ? "&" : "", place ? make("wbr") : "", part));
    return cell;
  };

  const columnsOf = (table) => {
    const level = one(table.level), unit = one(table.unit);
    const whole = table.keys.map((key, place) => ({
      title: key, kind: "text", sort: (row) => table.where[place][row], cell: (row) => worded(table.where[place][row], { "data-key": table.where[place][row] === "" ? null : key }),
    }));
    const value = (row) => {
      const cell = make("td", { class: "right value" }, table.pointText(row));
      const notes = table.sayings[table.notes[row]];
      if (notes.length) {
        const said = notes.map((code) => table.messages[code]).join(" ");
        const tell = (event) => {
          const box = event.currentTarget.getBoundingClientRect();
          showHint(said, box.left, box.bottom - 16);
        };
        const hide = () => showHint(null);
        cell.append(make("button", { type: "button", class: "dagger", "aria-label": `Warning: ${said}`, onmouseenter: tell, onfocus: tell, onclick: tell, onmouseleave: hide, onblur: hide }, "†"));
      }
      return cell;
    };
    const levelled = (row) => (table.below[row] === null || !table.levels[table.level[row]] ? "" : `, ${table.levels[table.level[row]]}`);
    whole.push(
      { title: "value", kind: "number", sort: table.point, cell: value },
      { title: level === null ? "interval" : `${table.levels[level]} interval`.trim(), kind: "number", sort: (row) => table.ends(row)[0] ?? table.point(row), cell: (row) => make("td", { class: "right interval" }, table.intervalText(row) + (level === null ? levelled(row) : "")) },
      { title: "", kind: "glyph", cell: (row) => make("td", { class: "picture" }, glyph(table, row)) },
      { title: unit === null ? "n" : `n (${table.units[unit]})`, kind: "number", sort: (row) => table.n[row], cell: (row) => make("td", { class: "right", "data-key": unit === null ? "n" : table.units[unit] }, table.n[row].toLocaleString("en") + (unit === null ? ` ${table.units[table.unit[row]]}` : "")) },
      { title: "method", kind: "method", sort: (row) => table.methods[table.method[row]], cell: (row) => worded(table.methods[table.method[row]], { class: "method" }) },
    );
    return whole;
  };

  const natural = new Intl.Collator("en", { numeric: true }).compare;
  const ordered = (rows, column, sign) => {
    const compare = column.kind === "number" ? (a, b) => a - b
      : (a, b) => (a !== "" && b !== "" && Number.isFinite(+a) && Number.isFinite(+b) ? a - b : natural(a, b));
    const keys = rows.map((row) => [column.sort(row), row]);
    return keys.sort((a, b) => sign * compare(a[0], b[0]) || a[1] - b[1]).map((pair) => pair[1]);
  };

  const fill = (packed, place) => {
    const host = document.getElementById(`table-${place}`);
    const table = opened(packed);
    const columns = columnsOf(table);
    const all = Array.from({ length: table.rows }, (_, row) => row);
    const state = { rows: all, sorted: null, sign: 1, first: 0, words: "", chosen: new Map() };
    const body = make("tbody");
    const status = make("span", { role: "status" });
    const back = make("button", { type: "button", onclick: () => turn(-PAGE) }, "Previous");
    const on = make("button", { type: "button", onclick: () => turn(PAGE) }, "Next");

    const show = () => {
      const page = state.rows.slice(state.first, state.first + PAGE);
      body.replaceChildren(...page.map((row) =>
        make("tr", table.faint[row] ? { class: "faint" } : {}, ...columns.map((column) => column.cell(row)))));
      const many = state.rows.length > PAGE;
      back.hidden = on.hidden = !many;
      back.disabled = state.first === 0;
      on.disabled = state.first + PAGE >= state.rows.length;
      const range = many ? `${state.first + 1} to ${state.first + page.length} of ` : "";
      const left = table.count > table.rows ? `; the page holds ${table.rows.toLocaleString("en")} of ${table.count.toLocaleString("en")}, report.json all` : "";
      status.textContent = `${range}${state.rows.length.toLocaleString("en")} ${state.rows.length === 1 ? "row" : "rows"}${left}`;
    };
    const turn = (step) => { state.first += step; show(); scroll.scrollTop = 0; };
    const choose = () => {
      const words = state.words.toLowerCase().split(/\s+/).filter(Boolean);
      let rows = all.filter((row) => {
        for (const [key, value] of state.chosen) if (table.where[key][row] !== value) return false;
        if (!words.length) return true;
        const said = [...table.where.map((column) => column[row]), table.methods[table.method[row]]].join(" ").toLowerCase();
        return words.every((word) => said.includes(word));
      });
      if (state.sorted) rows = ordered(rows, state.sorted, state.sign);
      Object.assign(state, { rows, first: 0 });
      show();
    };

    const heads = columns.map((column) => {
      const side = { number: "right", method: "method" }[column.kind] ?? null;
      if (column.kind === "glyph") return make("td", {});
      const head = make("th", { scope: "col", class: side, "aria-sort": "none" });
      head.append(make("button", { type: "button", class: "sort", onclick: () => {
        state.sign = state.sorted === column ? -state.sign : 1;
        state.sorted = column;
        for (const other of heads) if (other.tagName === "TH") other.setAttribute("aria-sort", "none");
        head.setAttribute("aria-sort", state.sign > 0 ? "ascending" : "descending");
        choose();
      } }, column.title));
      return head;
    });

    const controls = make("div", { class: "controls" });
    const typed = make("input", { type: "search", oninput: (event) => { state.words = event.target.value; choose(); } });
    controls.append(make("label", {}, "Filter by text", typed));
    table.keys.forEach((key, index) => {
      const values = packed.where[index].values;
      if (values.length < 2) return;
      const select = make("select", { onchange: (event) => {
        if (event.target.selectedIndex) state.chosen.set(index, event.target.value);
        else state.chosen.delete(index);
        choose();
      } }, make("option", { value: "" }, "all"));
      for (const value of values) select.append(make("option", { value }, value === "" ? "(none)" : value));
      controls.append(make("label", {}, key, select));
    });
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-labelledby": `table-${place}-title` },
      make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
    if (table.rows > 4) host.append(controls);
    host.append(scroll, make("p", { class: "pager" }, back, on, status));
    host.hidden = false;
    show();
  };

  data.tables.forEach(fill);
  for (const element of document.querySelectorAll(".scripted")) element.hidden = false;
  drawAll();
  let wait = 0;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(drawAll, 150); });

  const copy = document.getElementById("copy");
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const source = document.getElementById("command");
    try {
      await navigator.clipboard.writeText(source.textContent);
    } catch {
      getSelection().selectAllChildren(source);
      document.execCommand("copy");
    }
    copy.textContent = "Copied";
    setTimeout(() => { copy.textContent = "Copy"; }, 1500);
  });

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const part of folded) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of folded) part.open = false; });
})();
