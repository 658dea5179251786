"use strict";
// The data of one dataset: its charts are drawn when the section is opened, as a closed one has no width.

function openCard(contest) {
  const { card } = contest.data;
  if (!card) return;
  const details = contest.find("details.data");
  details.addEventListener("toggle", async () => {
    if (!details.open || details.dataset.drawn) return;
    details.dataset.drawn = "true";
    for (const figure of cardFigures(card)) {
      const node = contest.find(`figure[data-chart="${figure.kind}"]`);
      if (node) await show(node, figure);
    }
  });
}

function cardFigures({ items, users, times, ratings }) {
  const percent = (value) => `${Math.round(100 * value)} %`;
  const counted = (n) => `${n.toLocaleString("en")} interactions`;
  const bars = (rows, name) => ({ columns: [text(name), ...values("Interactions")], numbers: rows.map((row) => ({ cells: [row.model, row.count] })) });
  const parts = [["items", items, "var(--accent)", 0.17], ["users", users, "var(--quiet)", 0.07]];
  const points = parts.flatMap(([name, { gini, curve }, colour, labelY]) => curve.map((y, i) => {
    const [model, x] = [`${name}, Gini ${gini}`, i / (curve.length - 1)];
    return { model, colour, x, y, labelX: 0.97, labelY, name: i ? "" : model, text: `the busiest ${percent(x)} have ${percent(y)} of the interactions` };
  }));
  return [
    {
      kind: "card-popularity", chart: "card_popularity", why: "", rows: points, values: {},
      description: "Share of the interactions that the busiest items and users have",
      columns: [text("Of"), text("Busiest"), text("Interactions")],
      numbers: points.filter((row) => Math.round(100 * row.x) % 10 === 0).map((row) => ({ cells: [row.model, percent(row.x), percent(row.y)] })),
    },
    ...(times ? [timeFigure(times, counted, bars)] : []),
    ...(ratings ? [{
      kind: "card-ratings", chart: "card_ratings", why: "", values: {}, description: "Interactions by rating",
      rows: ratings.map(([model, count]) => ({ model, count, text: counted(count) })),
      ...bars(ratings.map(([model, count]) => ({ model, count })), "Rating"),
    }] : []),
  ];
}

function timeFigure({ first, last, counts, cuts, isDate }, counted, bars) {
  const at = (time) => (isDate ? new Date(1000 * time).toISOString() : time);
  const edge = (i) => at(first + ((last - first) * i) / counts.length);
  const rows = counts.map((count, i) => ({ model: String(edge(i)).slice(0, 10), start: edge(i), end: edge(i + 1), count, text: counted(count) }));
  return {
    kind: "card-times", chart: `${isDate ? "card_times" : "card_order"}${cuts.length ? "_cut" : ""}`, why: "",
    rows: [...rows, ...cuts.map((cut) => ({ model: "cut", cut: at(cut), text: "the truth begins" }))],
    values: { title: cuts.length ? "time; line: where the truth begins" : "time" },
    description: "Interactions over time; lines: where the truth begins", ...bars(rows, "From"),
  };
}
