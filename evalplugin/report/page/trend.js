"use strict";
// One dataset under one split over the bake-offs of the past.

const ROLES = { promoted: "★ promoted", champion: "☆ champion", baseline: "baseline", challenger: "" };

function trendFigures(contest) {
  const { trend, metrics } = contest.data;
  if (!trend) return [];
  const metric = metrics[0];
  const { bakeoffs, models } = trend;
  const points = models.flatMap((model) => model.points.map((point) => ({ model, point, bakeoff: bakeoffs[point.bakeoff] })));
  points.sort((a, b) => b.point.bakeoff - a.point.bakeoff || metric.better * (b.point.mean - a.point.mean));
  const every = points.flatMap(({ point }) => [point.mean, point.low ?? point.mean, point.high ?? point.mean]);
  const [low, high] = [Math.min(...every), Math.max(...every)];
  const room = 0.08 * (high - low || Math.abs(high) || 1);
  contest.find(".trend .names").replaceChildren(...models.filter((model) => model.points.length).map((model) => el("li", {}, swatch(model), model.name)));
  const focus = contest.data.models[contest.focus].name;
  return [{
    kind: "trend", why: "",
    rows: points.map(({ model, point, bakeoff }) => ({
      model: model.name, at: bakeoff.at, mean: point.mean, low: point.low ?? point.mean, high: point.high ?? point.mean,
      line: point.line, colour: model.colour, shape: model.shape, width: model.name === focus ? 3.5 : 1.75,
      sign: [point.role === "promoted" ? "★" : "", point.worse ? "▼" : ""].join(""), signColour: point.worse ? "var(--worse)" : "var(--ink)",
      text: `${number(point.mean)} ${interval(point.low, point.high)} ${ROLES[point.role]}${point.worse ? " ▼ worse than before" : ""}`,
    })),
    values: { title: `${metric.name}, mean`, low: low - room, high: high + room },
    description: `Mean ${metric.name} in the bake-offs of this experiment, a line for each model`,
    columns: [text("Bake-off"), text("Started (UTC)"), text("Decision"), text("Model"), text("Role"), ...values("Mean", "Low", "High", "Change", "Low", "High")],
    numbers: points.map(({ model, point, bakeoff }) => ({ cells: [
      bakeoff.id, bakeoff.at.slice(0, 16).replace("T", " "), bakeoff.outcome ?? "", nameCell(model), ROLES[point.role],
      fixed(point.mean), fixed(point.low), fixed(point.high),
      { value: point.difference, content: marked(signed(point.difference ?? null), point.worse ? "-" : "") }, fixed(point.differenceLow), fixed(point.differenceHigh),
    ] })),
  }];
}
