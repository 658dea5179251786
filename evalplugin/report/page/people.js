// User by user, or query by query: whom one model serves much worse than another, and what both of them listed.

class People {
  constructor(contest) {
    this.contest = contest;
    this.held = contest.data.examples;
    const metric = contest.data.metrics.find((m) => m.name === this.held.metric);
    this.sign = metric.better < 0 ? 1 : -1;
    // The leader and its strongest rival.
    [this.first, this.second] = contest.data.opening ?? [0, 1];
    for (const name of ["first", "second"])
      contest.find(`.people .${name}`).addEventListener("change", (event) => this.choose(name, Number(event.target.value)));
    contest.find(".people .swap").addEventListener("click", () => {
      [this.first, this.second] = [this.second, this.first];
      this.draw();
    });
    this.draw();
  }

  choose(name, model) {
    const other = name === "first" ? "second" : "first";
    if (this[other] === model) this[other] = this[name];
    this[name] = model;
    this.draw();
  }

  /** The users the first model loses most on against the second, largest loss first. */
  losers() {
    const [a, b] = [this.held.values[this.first], this.held.values[this.second]];
    const loss = (user) => this.sign * (a[user] - b[user]);
    return this.held.users.map((_, user) => user)
      .filter((user) => a[user] != null && b[user] != null && loss(user) > 0)
      .sort((x, y) => loss(y) - loss(x) || x - y)
      .slice(0, this.held.depth[this.first][this.second]);
  }

  draw() {
    const { contest, held } = this;
    const { models, unit, units, whom } = contest.data;
    const names = models.map((model, i) => [i, model.name]);
    options(contest.find(".people .first"), names, this.first);
    options(contest.find(".people .second"), names, this.second);
    const losers = this.losers();
    const place = contest.find(".losers");
    contest.find(".user").replaceChildren();
    const [first, second] = [models[this.first].name, models[this.second].name];
    contest.find(".people .whole").textContent = this.command();
    const every = held.losers[this.first][this.second].toLocaleString("en");
    contest.find(".people .count").textContent = every === "0" ? `${first} is behind ${second} for no ${unit}.`
      : losers.length ? `The ${losers.length} largest losses of the ${every} ${units} for ${whom} ${first} is behind ${second}.`
        : `${first} is behind ${second} for ${every} ${units}, none of ${whom} found room on this page.`;
    if (!losers.length) {
      place.replaceChildren();
      return;
    }
    const [a, b] = [held.values[this.first], held.values[this.second]];
    const id = (user) => (held.sessions ?? held.users)[user];
    place.replaceChildren(table(
      [...(held.sessions ? [text("Session"), { name: "Position" }] : [text(capitalized(unit))]), { name: first }, { name: second }, { name: "Difference" }],
      losers.map((user) => ({ "data-user": user, cells: [
        { value: id(user), content: [el("button", { type: "button", class: "choose", "aria-label": held.sessions ? held.users[user] : false, onclick: () => this.show(user) }, id(user))] },
        ...(held.sessions ? [held.positions[user]] : []),
        fixed(a[user]), fixed(b[user]), shownAs(a[user] - b[user], signed(a[user] - b[user])),
      ] }))));
    this.show(losers[0]);
  }

  /** The command that writes the table of all users or queries. */
  command() {
    const { bakeoff, models, units, isTable } = this.contest.data;
    const file = `${units.replaceAll(/\W+/g, "-")}.csv`;
    const quoted = (word) => (/^[\w.@%+=:,/-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
    const runs = [this.first, this.second].map((model) => models[model].run);
    const pair = runs.every(Boolean) ? runs : [this.first, this.second].map((model) => quoted(models[model].name));
    if (isTable) return `evalplugin compare-scores … --users ${pair.join(" ")} --out ${file}`;
    const where = runs.every(Boolean) ? runs.join(" ") : `--bakeoff ${quoted(bakeoff)}`;
    return `evalplugin compare ${where} --users ${pair.join(" ")} --out ${file}`;
  }

  show(user) {
    const { contest, held } = this;
    contest.section.querySelectorAll(".losers tr[data-user]").forEach((row) =>
      row.classList.toggle("chosen", Number(row.dataset.user) === user));
    contest.section.querySelectorAll(".losers button.choose").forEach((button) =>
      button.setAttribute("aria-pressed", String(Number(button.closest("tr").dataset.user) === user)));
    const groups = held.groups[user].join(" · ");
    contest.find(".user").replaceChildren(
      el("h4", {}, `${capitalized(contest.data.unit)} ${held.users[user]}`, groups ? el("span", { class: "note" }, ` ${groups}`) : ""),
      ...(contest.data.isTable ? [this.scores(user)] : [
        el("div", { class: "lists" }, this.list(user, this.first), this.list(user, this.second)),
        el("div", { class: "lists" }, this.truth(user), this.history(user)),
      ]),
    );
  }

  /** The scores of all models, of a table that has nothing else. */
  scores(user) {
    const { held, contest } = this;
    const rows = contest.data.models.map((model, i) => ({ cells: [nameCell(model), fixed(held.values[i][user])] }));
    return scrolling({ class: "scroll tall" }, table([text("Model"), { name: held.metric }], rows));
  }

  item(code) {
    const [id, title] = this.held.items[code];
    return title == null ? el("span", { class: "item" }, id) : el("span", { class: "item", title: `item ${id}` }, title);
  }

  isRelevant(rating) {
    const { threshold } = this.contest.data;
    return threshold == null ? rating > 0 : rating >= threshold;
  }

  list(user, model) {
    const { held, contest } = this;
    const { name } = contest.data.models[model];
    const head = el("h5", {}, swatch(contest.data.models[model]), name, el("span", { class: "note" }, ` ${number(held.values[model][user])}`));
    const list = held.lists[model];
    if (!list) return el("div", {}, head, el("p", { class: "empty" }, "Its lists were not kept."));
    if (!list.items[user].length) return el("div", {}, head, el("p", { class: "empty" }, `It has no list for this ${contest.data.unit}.`));
    const hits = new Set(held.hits ? held.hits[model][user] : []);
    const rows = list.items[user].map((code, i) => {
      const hit = hits.has(i + 1);
      return el("li", { class: hit ? "hit" : false }, this.item(code),
        hit ? el("span", { class: "tick" }, "✓", el("span", { class: "spoken" }, " hit")) : null,
        el("span", { class: "score" }, short(list.scores[user][i])));
    });
    return el("div", {}, head, el("ol", { class: "list" }, ...rows));
  }

  truth(user) {
    const { held, contest } = this;
    const head = el("h5", {}, "Held out");
    if (!held.truth) return el("div", {}, head, el("p", { class: "empty" }, "What was held out is not known here."));
    const models = [this.first, this.second];
    const rank = (model, i) => {
      const ranks = held.truth.ranks[model];
      return ranks && ranks[user][i] ? shownAs(ranks[user][i], `#${ranks[user][i]}`) : { value: null };
    };
    const rows = held.truth.items[user].map((code, i) => {
      const rating = held.truth.ratings[user][i];
      return { class: this.isRelevant(rating) ? "relevant" : "not-relevant", cells: [
        { value: this.held.items[code].at(-1), content: [this.item(code)] }, shownAs(rating, short(rating)),
        ...models.map((model) => rank(model, i)),
      ] };
    });
    const hidden = held.truth.counts[user] - rows.length;
    const faint = held.truth.ratings[user].some((rating) => !this.isRelevant(rating)) ? "Faint: rated too low to be relevant." : "";
    const more = hidden > 0 ? ` ${hidden} more are not shown.` : "";
    return el("div", {}, head,
      scrolling({ class: "scroll" }, table([text("Item"), { name: "Rating" }, ...models.map((i) => this.rankColumn(i))], rows)),
      el("p", { class: "note" }, `Where each stands in the whole list of ${contest.data.n}.${faint ? ` ${faint}` : ""}${more}`));
  }

  rankColumn(i) {
    const model = this.contest.data.models[i];
    return { name: model.name, content: ["Rank ", swatch(model), el("span", { class: "spoken" }, model.name)] };
  }

  history(user) {
    const { held } = this;
    const head = el("h5", {}, "Recent history");
    if (!held.history?.items[user].length) return el("div", {}, head, el("p", { class: "empty" }, "No history is known here."));
    const rows = held.history.items[user].map((code, i) => ({ cells: [
      { value: held.items[code].at(-1), content: [this.item(code)] }, shownAs(held.history.ratings[user][i], short(held.history.ratings[user][i])),
    ] }));
    return el("div", {}, head, scrolling({ class: "scroll tall" }, table([text(held.sessions ? "Item, in order" : "Item, latest first"), { name: "Rating" }], rows)));
  }
}

start().then(
  () => { document.documentElement.dataset.ready = "yes"; },
  (error) => { document.documentElement.dataset.ready = "failed"; throw error; },
);
