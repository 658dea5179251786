// One dataset under one split: its controls, its figures and the tables below them.

const CHARTS = JSON.parse(document.getElementById("charts").textContent);
// By an interpreter: no text is run as code.
const EMBED = { mode: "vega-lite", renderer: "svg", actions: false, ast: true };
const NAMES = 0.5; // most of a figure's width that names of models or groups may take
const ROW = 26; // pixels of one model or group
const PEN = document.createElement("canvas").getContext("2d");
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const NAME_FONT = `13px ${FONT}`;
const LABEL_FONT = `11px ${FONT}`;
const POINT = 7; // pixels from the middle of a point to its edge
const LABEL_HEIGHT = 13; // pixels of one label beside a point
const MANY = 12; // models, from which on only some points are labelled

class Contest {
  constructor(section) {
    this.section = section;
    this.data = JSON.parse(section.querySelector("script.data").textContent);
    this.drawing = 0;
    // A closed part has no width to draw in.
    for (const part of section.querySelectorAll("details.part"))
      part.addEventListener("toggle", () => { if (part.open && part.dataset.drawn !== String(this.drawing)) this.draw(); });
    if (!this.data.models.length) return;
    const { models, metrics, baseline } = this.data;
    this.metric = 0;
    this.focus = Math.max(0, models.findIndex((_, i) => i !== baseline));
    this.against = this.rivals()[0] ?? null;
    const names = models.map((model, i) => [i, model.name]);
    this.control("metric", metrics.map((metric, i) => [i, metric.name]), this.metric);
    this.control("focus", names, this.focus);
    this.control("against", this.rivals().map((i) => names[i]), this.against);
    this.find(".against-control").hidden = this.rivals().length < 2;
    this.find(".legend").append(...models.map((model, i) =>
      el("li", {}, el("button", { type: "button", onclick: () => this.choose("focus", i) },
        swatch(model), model.name, i === baseline ? el("span", { class: "tag" }, "baseline, dashed") : null))));
    if (this.data.examples) this.people = new People(this);
  }

  find(selector) {
    return this.section.querySelector(selector);
  }

  control(name, choices, chosen) {
    const select = this.find(`select.${name}`);
    options(select, choices, chosen);
    select.addEventListener("change", () => this.choose(name, Number(select.value)));
  }

  choose(name, value) {
    this[name] = value;
    this.find(`select.${name}`).value = value;
    return this.draw();
  }

  /** Models that others were compared with; the baseline, or else the best, first. */
  rivals() {
    const { metrics, baseline } = this.data;
    const held = new Set(metrics.flatMap((metric) => metric.pairs.flatMap((pair) => [pair.against, pair.model])));
    const all = metrics.some((metric) => metric.pairs.some((pair) => pair.against !== baseline));
    if (!all) return held.size ? [baseline] : [];
    return [...held].sort((a, b) => (b === baseline) - (a === baseline) || a - b);
  }

  /** Return how a model compares with another, whichever way it was computed. */
  pair(metric, model, against) {
    const same = metric.pairs.find((pair) => pair.model === model && pair.against === against);
    if (same) return same;
    const other = metric.pairs.find((pair) => pair.model === against && pair.against === model);
    if (!other) return null;
    const minus = (value) => (value == null ? null : -value);
    const relative = other.relative == null || other.relative === -1 ? null : -other.relative / (1 + other.relative);
    return {
      ...other, model, against, relative,
      difference: minus(other.difference), low: minus(other.high), high: minus(other.low), effect: minus(other.effect),
      above: other.below, below: other.above, mark: { "+": "-", "-": "+", "": "" }[other.mark],
    };
  }

  async draw() {
    if (!this.data.models.length) return this.show(this.data.card ?? [], ++this.drawing);
    const turn = ++this.drawing;
    const metric = this.data.metrics[this.metric];
    this.section.querySelectorAll(".shown").forEach((node) => { node.textContent = metric.name; });
    this.section.querySelectorAll(".legend button").forEach((button, i) =>
      button.setAttribute("aria-pressed", String(i === this.focus)));
    const figures = [
      ...differenceFigures(this, metric), ...curveFigures(this, metric), ...costFigures(this), ...groupFigures(this, metric),
      ...hitRateFigures(this), ...(this.data.trend ? [this.data.trend.figure] : []), ...(this.data.card ?? []),
    ];
    await this.show(figures, turn);
  }

  /** Draw the figures of open parts. */
  async show(figures, turn) {
    this.section.querySelectorAll("details.part[open]").forEach((part) => { part.dataset.drawn = turn; });
    for (const figure of figures) {
      if (turn !== this.drawing) return; // something else was chosen meanwhile
      const node = this.find(`figure[data-chart="${figure.kind}"]`);
      if (node && !node.closest("details.part:not([open])")) await show(node, figure);
    }
    if (turn === this.drawing) this.section.dataset.drawn = String(turn);
  }
}

/** Show one figure: its chart, or in words why there is none, and its numbers. */
async function show(figure, { kind, chart = kind, rows, values, description, columns, numbers, why }) {
  const plot = figure.querySelector(".plot");
  const details = figure.querySelector("details");
  details.hidden = !rows.length;
  if (!rows.length) {
    plot.replaceChildren(el("p", { class: "empty" }, why));
    return;
  }
  details.querySelector(".scroll").replaceChildren(table(columns, numbers));
  const limit = Math.round(Math.min(260, NAMES * plot.clientWidth));
  const names = JSON.stringify(CHARTS[chart]).includes("$limit") ? values.groups ?? rows.map((row) => row.model) : [];
  const beside = names.length ? Math.min(limit, widest(names, NAME_FONT)) + 8 : 50;
  const letters = Math.floor((plot.clientWidth - beside - 20) / 6.2);
  const titles = Object.fromEntries(["title", "cost", "popularity"].filter((name) => values[name]).map((name) => [name, wrapped(values[name], letters)]));
  const spec = filled(CHARTS[chart], { description, limit: String(limit), ...values, ...titles });
  spec.datasets = { rows: rows.map((row) => ({ ...row, label: `${row.model ?? row.name}: ${row.text}` })) };
  const before = figure.view;
  try {
    figure.view = (await vegaEmbed(plot, spec, EMBED)).view;
    if (before) before.finalize();
  } catch (error) { // the other figures are still worth seeing
    plot.replaceChildren(el("p", { class: "empty" }, `This chart could not be drawn: ${error.message}`));
    console.error(error);
  }
}

/** Return the width in pixels of the widest of some texts. */
function widest(texts, font) {
  PEN.font = font;
  return Math.max(0, ...texts.map((text) => PEN.measureText(text).width));
}

/** Return a text in lines of so many letters at most; a longer word is cut. */
function wrapped(title, letters) {
  const lines = [];
  for (const long of title.split(" ")) {
    const word = long.length > letters ? `${long.slice(0, Math.max(4, letters - 1))}…` : long;
    if (lines.length && lines.at(-1).length + word.length < letters) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

function filled(spec, values) {
  if (Array.isArray(spec)) return spec.flatMap((value) => filled(value, values));
  if (spec !== null && typeof spec === "object")
    return Object.fromEntries(Object.entries(spec).map(([key, value]) => [key, filled(value, values)]));
  return typeof spec === "string" && spec[0] === "$" && spec.slice(1) in values ? values[spec.slice(1)] : spec;
}

const text = (name) => ({ name, kind: "text" });
const values = (...names) => names.map((name) => ({ name }));
const shownAs = (value, content) => ({ value, content: [content] });
const fixed = (value) => shownAs(value, number(value));
const nameCell = (model) => ({ value: model.name, content: [swatch(model), model.name] });

function differenceFigures(contest, metric) {
  const { models, unit, units, whom } = contest.data;
  const against = contest.against;
  const other = models[against];
  const pairs = against === null ? [] : models.map((_, i) => (i === against ? null : contest.pair(metric, i, against))).filter(Boolean);
  const way = { 1: "higher is better", "-1": "lower is better", 0: "neither way is better" }[metric.better];
  const title = other ? `${metric.name}: model − ${other.name} (${way})` : "";
  const why = !metric.perUser ? `${metric.name} is one number a model; see the leaderboard.`
    : contest.data.baseline === null ? "There is no baseline to compare with."
      : against !== contest.data.baseline && metric !== contest.data.metrics[0] ? `Only by ${contest.data.metrics[0].name} were all models compared with ${other.name}.`
        : `Nothing was compared: no ${units} in common.`;
  const counts = pairs.map((pair) => pair.users);
  const compared = [...new Set([Math.min(...counts), Math.max(...counts)])].map((count) => count.toLocaleString("en")).join(" to ");
  contest.find(".differences > .note").textContent = pairs.length
    ? `Every model against ${other.name}, ${unit} by ${unit}, over the ${compared} ${units} both are defined for.` : "";
  const tests = [...new Set(pairs.flatMap((pair) => Object.keys(pair.tests)))];
  const [up, down] = { 1: ["better", "worse"], "-1": ["worse", "better"], 0: ["higher", "lower"] }[metric.better];
  const ends = metric.better < 0 ? ["below", "above"] : ["above", "below"];
  const kinds = metric.better < 0 ? [down, up] : [up, down];
  const colours = metric.better ? ["var(--better)", "var(--worse)"] : ["var(--accent)", "var(--quiet)"];
  return [
    {
      kind: "forest", why,
      rows: pairs.map((pair) => ({
        model: models[pair.model].name, name: models[pair.model].name, difference: pair.difference, low: pair.low ?? pair.difference, high: pair.high ?? pair.difference,
        colour: models[pair.model].colour, fill: pair.mark ? models[pair.model].colour : "var(--surface)",
        shape: models[pair.model].shape, text: `${signed(pair.difference)} ${markOf(pair.mark)}`,
      })),
      values: { title, height: ROW * pairs.length },
      description: `Mean difference of ${metric.name} from ${other?.name} with intervals, a row for each model`,
      columns: [text("Model"), ...values("Difference", "Low", "High", "Relative", "Effect (d_z)", "p", "p, Holm", "p, BH"),
        ...values(...tests.map((name) => `p, ${name}`)), ...values("Detectable", capitalized(units))],
      numbers: pairs.map((pair) => ({ cells: [
        nameCell(models[pair.model]),
        { value: pair.difference, content: marked(signed(pair.difference), pair.mark, other.name) },
        fixed(pair.low), fixed(pair.high),
        shownAs(pair.relative, pair.relative == null ? NONE : `${signed(100 * pair.relative, Math.abs(pair.relative) < 0.1 ? 1 : 0)} %`),
        shownAs(pair.effect, signed(pair.effect, 2)),
        ...[pair.p, pair.holm, pair.bh, ...tests.map((name) => pair.tests[name])].map((p) => shownAs(p, probability(p))),
        fixed(pair.detectable),
        shownAs(pair.users, pair.users.toLocaleString("en")),
      ] })),
    },
    {
      kind: "shares", why,
      rows: (metric.perUser ? pairs : []).flatMap((pair) => {
        const room = barWidth(contest.find('figure[data-chart="shares"] .plot'), pairs.map(({ model }) => models[model].name));
        const parts = [[kinds[0], pair[ends[0]], colours[0]], ["same", pair.equal, "var(--equal)"], [kinds[1], pair[ends[1]], colours[1]]];
        let start = 0;
        return parts.map(([kind, share, colour]) => {
          const row = { model: models[pair.model].name, kind, start, end: start + share, middle: start + share / 2, colour,
            ink: kind === "same" ? "var(--ink)" : "var(--surface)", text: percent(share),
            inside: widest([percent(share)], LABEL_FONT) + 4 < share * room ? percent(share) : "" };
          start += share;
          return row;
        });
      }),
      values: { height: ROW * pairs.length, shares: `share of ${units}` },
      description: `Share of ${units} for ${whom} each model is ${kinds[0]}, the same, ${kinds[1]} by ${metric.name} against ${other?.name}`,
      columns: [text("Model"), ...values(kinds[0], "same", kinds[1])],
      numbers: pairs.map((pair) => ({ cells: [nameCell(models[pair.model]),
        ...[pair[ends[0]], pair.equal, pair[ends[1]]].map((share) => shownAs(share, percent(share)))] })),
    },
  ];
}

/** Return the width in pixels of a bar from 0 % to 100 %, beside the names of models. */
function barWidth(plot, names) {
  const limit = Math.min(260, NAMES * plot.clientWidth);
  return plot.clientWidth - Math.min(limit, widest(names, NAME_FONT)) - 30;
}

/** Return a line of every model that has one, the model in focus on top. `pointAt` says where its outline stands. */
function lines(contest, xs, ys, pointAt) {
  const { models, baseline } = contest.data;
  const faint = models.length > MANY;
  const order = models.map((_, i) => i).filter((i) => ys[i]?.some((y) => y != null));
  order.sort((a, b) => (a === contest.focus) - (b === contest.focus));
  return order.flatMap((i) => xs.map((x, place) => ({
    model: models[i].name, x, y: ys[i][place], colour: models[i].colour, shape: models[i].shape, baseline: i === baseline,
    width: i === contest.focus ? 3.5 : 1.75, opacity: i === contest.focus ? 1 : faint && i !== baseline ? 0.4 : 0.85,
    point: pointAt(place, i), text: `${short(x)}: ${number(ys[i][place])}`,
  })).filter((row) => row.y != null));
}

function ends(rows) {
  const ys = rows.map((row) => row.y);
  const [low, high] = [Math.min(0, ...ys), Math.max(...ys)];
  return { low, high: high > low ? low + 1.05 * (high - low) : low + 1 };
}

function curveFigures(contest, metric) {
  const { models, curves, precision, unit, units } = contest.data;
  const percents = Array.from({ length: 101 }, (_, i) => i / 100);
  // Not all at the same place, so that outlines of lines that meet stay apart.
  const users = lines(contest, percents, metric.quantiles, (place, i) => place % 16 === (5 + 3 * i) % 16 && metric.quantiles[i][place] > metric.axis[0]);
  const curve = curves[metric.family] || { ks: [], values: [] };
  const step = Math.ceil(curve.ks.length / 6);
  const atK = lines(contest, curve.ks, curve.values, (place, i) => (place + i) % step === 0 || place === curve.ks.length - 1);
  const recall = lines(contest, precision.recall.map((r) => r / 100), precision.values, (place, i) => (place + i) % 2 === 0);
  const tenths = Array.from({ length: 11 }, (_, i) => 10 * i);
  const perModel = (rowOf) => models.map((model, i) => ({ cells: [nameCell(model), ...rowOf(i)] }));
  return [
    {
      kind: "distribution", why: `${metric.name} is one number a model.`,
      ...(metric.perUser && metric.binary ? shareBars(contest, metric) : {
        rows: users,
        values: { title: metric.name, low: metric.axis[0], high: metric.axis[1], shares: `share of ${units}, lowest first` },
      }),
      description: `${metric.name} of every ${unit}, lowest to highest, a line for each model`,
      columns: [text("Model"), ...values("Mean", "Std", "At 0", ...tenths.map((t) => `${t} %`), capitalized(units), "Undefined")],
      numbers: perModel((i) => {
        const [mean, , , n, undefinedUsers] = metric.means[i] || [];
        const [std, zero] = metric.spread[i] || [];
        const quantiles = metric.quantiles[i] || [];
        return [fixed(mean), fixed(std), shownAs(zero, percent(zero)), ...tenths.map((t) => fixed(quantiles[t])), n, undefinedUsers];
      }),
    },
    {
      kind: "at_k", rows: atK, why: `${metric.name} has no values at other cutoffs.`,
      values: { title: `${metric.family}@k, mean`, left: curve.ks[0], right: curve.ks.at(-1), ...ends(atK) },
      description: `Mean ${metric.family} at each cutoff k, a line for each model`,
      columns: [text("Model"), ...values(...curve.ks.map((k) => `@${k}`))],
      numbers: perModel((i) => curve.ks.map((_, place) => fixed(curve.values[i]?.[place]))),
    },
    {
      kind: "precision", rows: recall, why: "No precision-recall curve was computed.",
      values: { title: "precision, mean", ...ends(recall) },
      description: "Mean interpolated precision at recall levels, a line for each model",
      columns: [text("Model"), ...values(...precision.recall.map((r) => `${r} %`))],
      numbers: perModel((i) => precision.recall.map((_, place) => fixed(precision.values[i]?.[place]))),
    },
  ];
}

/** Return a bar for each model: the share of its values that are 1. */
function shareBars(contest, metric) {
  const { models, units } = contest.data;
  const shown = models.map((model, i) => ({ model, mean: metric.means[i]?.[0] })).filter(({ mean }) => mean != null);
  const room = barWidth(contest.find('figure[data-chart="distribution"] .plot'), shown.map(({ model }) => model.name));
  const rows = shown.flatMap(({ model, mean }) => [[1, 0, mean, model.colour], [0, mean, 1, "var(--equal)"]].map(([value, start, end, colour]) => ({
    model: model.name, kind: String(value), start, end, middle: (start + end) / 2, colour, text: percent(end - start),
    ink: value ? "var(--surface)" : "var(--ink)",
    inside: widest([percent(end - start)], LABEL_FONT) + 4 < (end - start) * room ? percent(end - start) : "",
  })));
  return { chart: "shares", rows, values: { height: ROW * shown.length, shares: `share of ${units} with ${metric.name} 1, and 0` } };
}

const brief = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);

function costFigures(contest) {
  const { models, costs, metrics, baseline } = contest.data;
  const metric = metrics[0];
  return costs.map((cost, number_) => {
    const shown = models.map((model, i) => ({ i, model, x: cost.values[i], y: metric.means[i]?.[0] }))
      .filter(({ x, y }) => x != null && y != null);
    const title = `${cost.name}, ${cost.unit}${cost.log ? " (log)" : ""}`;
    const plot = contest.find(`figure[data-chart="cost-${number_}"] .plot`);
    const domain = costDomain(shown, cost.log);
    const labelled = (i) => models.length <= MANY || cost.frontier.includes(i) || i === contest.focus || i === baseline;
    return {
      kind: `cost-${number_}`, chart: cost.log ? "cost_log" : "cost", why: `${metric.name} is undefined for every model.`,
      rows: withLabels(shown, domain, cost.log, plot.clientWidth - 50, labelled).map(({ i, model, x, y, labelY, side }) => ({
        model: model.name, name: brief(model.name), cost: x, quality: y, colour: model.colour, shape: model.shape, labelY, side,
        frontier: cost.frontier.includes(i), fill: cost.frontier.includes(i) ? model.colour : "var(--surface)",
        text: `${short(x)} ${cost.unit}, ${number(y)}`,
      })),
      values: { title: metric.name, cost: title, ...domain },
      description: `${metric.name} against ${cost.name}, a point for each model`,
      columns: [text("Model"), ...values(`${cost.name}, ${cost.unit}`, metric.name), text("On the frontier")],
      numbers: shown.map(({ i, model, x, y }) => ({ cells: [nameCell(model), shownAs(x, short(x)), fixed(y), cost.frontier.includes(i) ? "yes" : "no"] })),
    };
  });
}

function costDomain(points, log) {
  const range = (every, pad) => {
    const [low, high] = [Math.min(...every), Math.max(...every)];
    const room = pad * (high - low || Math.abs(high) || 1);
    return [low - room, high + room];
  };
  const [left, right] = range(points.map(({ x }) => (log ? Math.log10(x) : x)), 0.08);
  const [low, high] = range(points.map(({ y }) => y), 0.12);
  return { left: log ? 10 ** left : left, right: log ? 10 ** right : right, low, high };
}

/** Give each point a label where it touches no other label and no point; where there is no such place, it has none. */
function withLabels(points, { left, right, low, high }, log, width, labelled) {
  const scale = log ? Math.log : (x) => x;
  const height = CHARTS.cost.height;
  const across = (x) => (width * (scale(x) - scale(left))) / (scale(right) - scale(left));
  const down = (y) => (height * (high - y)) / (high - low);
  const taken = points.map(({ x, y }) => ({ left: across(x) - POINT, right: across(x) + POINT, top: down(y) - POINT, bottom: down(y) + POINT }));
  const sorted = points.map((point, own) => ({ ...point, own })).sort((a, b) => b.y - a.y);
  return sorted.map(({ own, ...point }) => {
    const none = { ...point, side: "none", labelY: point.y };
    if (!labelled(point.i)) return none;
    const [px, py] = [across(point.x), down(point.y)];
    const length = widest([brief(point.model.name)], LABEL_FONT) + 4;
    for (const shift of [-8, 8]) { // no farther, where it would seem to be the label of another point
      for (const side of px + POINT + length > width ? ["right"] : ["left", "right"]) {
        const from = side === "left" ? px + POINT : px - POINT - length;
        const box = { left: from, right: from + length, top: py + shift - LABEL_HEIGHT / 2, bottom: py + shift + LABEL_HEIGHT / 2 };
        if (box.left < 0 || box.top < -6 || box.bottom > height) continue;
        if (taken.some((other, i) => i !== own && box.left < other.right && other.left < box.right && box.top < other.bottom && other.top < box.bottom)) continue;
        taken.push(box);
        return { ...point, side, labelY: high - ((py + shift) / height) * (high - low) };
      }
    }
    return none;
  });
}

function groupFigures(contest, metric) {
  const { models, segments, baseline, units } = contest.data;
  const held = segments.filter((segment) => metric.name in segment.metrics);
  const counted = (segment, i) => `${segment.labels[i]} (${segment.users[i].toLocaleString("en")})`;
  const labels = held.flatMap((segment) => segment.labels.map((_, i) => counted(segment, i)));
  // The table below has the counts too.
  const fits = widest(labels, NAME_FONT) <= Math.min(260, NAMES * (contest.find('figure[data-chart="groups"] .plot')?.clientWidth ?? 0));
  const groups = held.flatMap((segment, s) => segment.labels.map((label, i) => ({
    key: `g${s}.${i}|${fits ? counted(segment, i) : label}`, name: `${segment.name}: ${label}`,
    users: segment.users[i], cells: segment.metrics[metric.name][i] })));
  const axis = held.flatMap((segment, s) => [`h${s}|${segment.name}`, ...groups.filter(({ key }) => key.startsWith(`g${s}.`)).map(({ key }) => key)]);
  if (segments.length) contest.find(".matrix").replaceChildren(...matrix(contest, metric, groups));
  for (const tables of contest.section.querySelectorAll("[data-metric]")) tables.hidden = tables.dataset.metric !== metric.name;
  const shown = [...new Set([contest.focus, ...(baseline === null ? [] : [baseline])])];
  const all = groups.flatMap((group) => models.map((model, i) => ({ group, model, cell: group.cells[i] })).filter(({ cell }) => cell));
  const compared = all.filter(({ cell }) => cell.difference != null);
  const focus = models[contest.focus];
  const isFocus = ({ model }) => model === focus;
  const cells = ({ group, model }, ...more) => ({ cells: [group.name, nameCell(model), ...more] });
  contest.find('figure[data-chart="groups"] .note')?.replaceChildren("of ", ...shown.flatMap((i) => [swatch(models[i]), `${models[i].name} `]));
  return [
    {
      kind: "groups", why: metric.perUser ? `No groups hold ${units} of this metric.` : `${metric.name} is one number a model.`,
      rows: groups.flatMap((group) => shown.filter((i) => group.cells[i]?.mean != null).map((i) => ({
        group: group.key, model: models[i].name, mean: group.cells[i].mean, low: group.cells[i].low ?? group.cells[i].mean, high: group.cells[i].high ?? group.cells[i].mean,
        colour: models[i].colour, shape: models[i].shape, text: `${number(group.cells[i].mean)} ${interval(group.cells[i].low, group.cells[i].high)}`,
      }))),
      values: { title: `${metric.name}, mean`, groups: axis, height: ROW * axis.length },
      description: `Mean ${metric.name} by group of ${units}, of ${focus.name} and the baseline, with intervals`,
      columns: [text("Group"), text("Model"), ...values(capitalized(units), "Mean", "Low", "High")],
      numbers: all.map((row) => cells(row, row.cell.users, fixed(row.cell.mean), fixed(row.cell.low), fixed(row.cell.high))),
    },
    {
      kind: "group_differences",
      why: baseline === null ? "There is no baseline to compare with." : contest.focus === baseline ? "The model in focus is the baseline: choose another."
        : "Nothing was compared in these groups.",
      rows: compared.filter(isFocus).map(({ group, cell }) => ({
        group: group.key, name: group.name, difference: cell.difference, low: cell.differenceLow ?? cell.difference, high: cell.differenceHigh ?? cell.difference, shape: focus.shape,
        colour: focus.colour, fill: cell.mark ? focus.colour : "var(--surface)", text: `${signed(cell.difference)} ${markOf(cell.mark)}`,
      })),
      values: { title: baseline === null ? "" : `${metric.name}: ${focus.name} − ${models[baseline].name}`, groups: axis, height: ROW * axis.length },
      description: `Difference of ${metric.name} from the baseline by group of ${units}, of ${focus.name}, with intervals`,
      columns: [text("Group"), text("Model"), ...values("Difference", "Low", "High", "p, Holm")],
      numbers: compared.map((row) => cells(row, { value: row.cell.difference, content: marked(signed(row.cell.difference), row.cell.mark) },
        fixed(row.cell.differenceLow), fixed(row.cell.differenceHigh), shownAs(row.cell.holm, probability(row.cell.holm)))),
    },
  ];
}

function hitRateFigures(contest) {
  const { models, hitRates, units } = contest.data;
  if (!hitRates) return [];
  const { labels, items, truth, hits } = hitRates;
  const all = truth.reduce((a, b) => a + b);
  const groups = labels.map((label, group) => `${label} (${percent(truth[group] / all)})`);
  const rates = hits.map((counts) => counts?.map((count, group) => count / truth[group]));
  const rows = lines(contest, [...groups.keys()], rates, () => true);
  const name = (label, group) => `${label} (${items[group].toLocaleString("en")} items, ${truth[group].toLocaleString("en")} times)`;
  return [{
    kind: "hit_rates", why: "No counts of items were logged.",
    rows: rows.map((row) => ({ ...row, x: groups[row.x], text: `${groups[row.x]}: ${number(row.y)}` })),
    values: { title: "hit rate", popularity: "interactions of an item in the train data (share of the relevant held-out items)", ...ends(rows) },
    description: `Share of the relevant held-out items of ${units} that are listed, by popularity of the item, a line for each model`,
    columns: [text("Model"), ...values(...labels.map(name))],
    numbers: models.map((model, i) => ({ cells: [nameCell(model), ...labels.map((_, group) => fixed(rates[i]?.[group]))] })),
  }];
}

/** Return every model's difference from the baseline in every group, or its mean where there is no baseline. */
function matrix(contest, metric, groups) {
  const { models, baseline, units } = contest.data;
  if (!groups.length) return [];
  const of = (cell) => (baseline === null ? cell?.mean : cell?.difference);
  const columns = models.map((model, i) => ({ model, i })).filter(({ i }) => i !== baseline);
  if (!columns.length) return [];
  const largest = Math.max(...groups.flatMap((group) => columns.map(({ i }) => Math.abs(of(group.cells[i]) ?? 0)))) || 1;
  const rows = groups.map((group) => ({ cells: [
    group.name, group.users,
    ...columns.map(({ i }) => {
      const cell = group.cells[i];
      const value = of(cell);
      if (value == null) return null;
      const gain = baseline === null ? 0 : metric.better * value;
      const strength = Math.round((40 * Math.abs(value)) / largest);
      const tone = gain > 0 ? "better" : gain < 0 ? "worse" : "";
      const content = baseline === null ? [number(value)] : marked(signed(value), cell.mark);
      return { value, content, class: `tint ${tone}`, style: `--strength:${strength}%` };
    }),
  ] }));
  return [
    el("h4", {}, baseline === null ? "Means of every model" : "Differences of every model from the baseline"),
    scrolling({ class: "scroll", tabindex: 0, role: "group", "aria-label": `Groups of ${units} by model` },
      table([text("Group"), { name: capitalized(units) }, ...columns.map(({ model }) => ({ name: model.name }))], rows)),
  ];
}
