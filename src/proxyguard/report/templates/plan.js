"use strict";
// What one setting of assumed margins gives (`plan/assumed.py`); `tests/plan/page_twin.py` does the same.
const planner = (() => {
  const SPREAD = 15, SHARES = [0.5, 0.8, 0.9, 0.95];
  const STEPS = [0, 0.125, 0.25, 0.5, 1, 1.5, 2.5, 4, 6];
  const TRUNCATION = 0.9;  // the largest share of its capital that a bet stakes
  const SIZES = 24, MOST_DRAWS = 400, MOST_RECORDS = 20000;
  const WIDE = 9, NODES = 64;  // deviations of a subgroup's size that count; sizes that stand for all
  const NARROW = 1e-18;  // the least variance of a loss

  // What does not depend on the records is kept until the claim changes.
  const nothing = (claim) =>
    ({ claim, envelopes: new Map(), thresholds: new Map(), counts: new Map(), effects: new Map() });
  let kept = nothing("");
  function memory(claim) {
    const name = `${claim.target} ${claim.alpha}`;
    if (kept.claim !== name) kept = nothing(name);
    return kept;
  }
  function remembered(map, key, make) {
    if (!map.has(key)) map.set(key, make());
    return map.get(key);
  }
  const envelopes = (claim) => (k, R, target) =>
    remembered(memory(claim).envelopes, k * 100003 + R, () => bounds.envelope(k, R, target));

  // Four significant digits, rounded down: a threshold a little above the largest validates nothing.
  function decimalDown(value) {
    const [digits, exponent] = value.toExponential().split("e");
    return Number(`${digits.slice(0, 5)}e${exponent}`);
  }

  function defaultThreshold(R, claim) {
    const level = (k) => bounds.upperTail(k, R, claim.target) <= claim.alpha;
    if (!level(R)) return null;
    const oracle = 1 + bounds.lastWhole((k) => !level(k), 0, R);
    const extra = Math.max(0, Math.ceil(R * (1 - claim.target) / 10 - 1e-9) - 1);
    for (let k = Math.min(R, oracle + extra); k <= R; k += 1) {
      const t = bounds.largestThreshold(k, R, claim.target, claim.alpha, envelopes(claim)(k, R, claim.target));
      if (t > 0) return t;
    }
    return null;
  }

  function thresholds(R, claim) {
    return remembered(memory(claim).thresholds, R, () => {
      const first = defaultThreshold(R, claim);
      if (first === null) return [];
      const oracle = bounds.criticalCount(R, claim.target, 0, claim.alpha, envelopes(claim));
      const step = R * (1 - claim.target) / 10;
      const counts = new Set(STEPS.map((share) => oracle + Math.ceil(step * share)));
      const found = [first];
      for (const k of [...counts].sort((a, b) => a - b))
        if (k <= R)
          found.push(bounds.largestThreshold(k, R, claim.target, claim.alpha, envelopes(claim)(k, R, claim.target)));
      return [...new Set(found.filter((t) => t > 1e-12).map(decimalDown))];
    });
  }

  // Means and chances of the kinds of release, as `assumed_kinds`.
  function kinds(setting) {
    const J = setting.requirements.length, valid = setting.spread > 0 ? SPREAD : 1;
    const failing = setting.reliability < 1 ? J : 0, chances = [];
    for (let i = 0; i < valid; i += 1) chances.push(setting.reliability / valid);
    for (let i = 0; i < failing; i += 1) chances.push((1 - setting.reliability) / J);
    const means = setting.requirements.map((r, j) => {
      const width = r.high - r.low, unit = r.margin / width, limit = (r.limit - r.low) / width, every = [];
      for (let i = 0; i < valid; i += 1)
        every.push(limit - unit * (valid === 1 ? 1 : 1 + setting.spread * (2 * (i + 0.5) / SPREAD - 1)));
      for (let i = 0; i < failing; i += 1) every.push(i === j ? limit + setting.excess * unit : limit - unit);
      return every;
    });
    return { chances, means };
  }

  const unitLimit = (r) => (r.limit - r.low) / (r.high - r.low);

  // The chance with which each kind passes one requirement's test at a level. Of a subgroup a target
  // has as many records as chance gives it.
  function passing(r, test, n, level, means, sds) {
    const share = r.share ?? 1;
    if (share >= 1) return passingOf(r, test, n, level, means, sds);
    const far = WIDE * Math.sqrt(n * share * (1 - share));
    const low = Math.max(0, Math.floor(n * share - far)), high = Math.min(n, Math.ceil(n * share + far));
    const step = r.two_valued ? 1 : Math.max(1, Math.floor((high - low) / NODES));
    const passed = means.map(() => 0), errors = r.two_valued ? counter(unitLimit(r), level, means) : null;
    let sum = 0;
    for (let m = low; m <= high; m += step) {
      const weight = bounds.binomialPoint(m, n, share);
      sum += weight;
      if (m === 0) continue;  // of no record nothing is known
      const found = errors ? errors(m) : passingOf(r, test, m, level, means, sds);
      for (let a = 0; a < passed.length; a += 1) passed[a] += weight * found[a];
    }
    return passed.map((chance) => chance / sum);
  }

  // What `passingOf` gives of counts, for one number of records after the other: each step adds one
  // record to every tail, F(k; m+1, p) = F(k; m, p) - p b(k; m, p), and at times one error.
  function counter(v, level, means) {
    const rates = [v, ...means], tail = rates.map(() => 0), point = rates.map(() => 0);
    let most = -1, at = -1;
    function begin(m) {
      most = bounds.binomialQuantile(m, v, level);
      rates.forEach((p, i) => {
        tail[i] = most < 0 ? 0 : bounds.lowerTail(most, m, p);
        point[i] = most < 0 ? 0 : bounds.binomialPoint(most, m, p);
      });
    }
    return (m) => {
      // Anew now and then, so that no rounding error grows.
      if (at !== m - 1 || most < 0 || m % 64 === 0) begin(m);
      else {
        rates.forEach((p, i) => {
          tail[i] -= p * point[i];
          point[i] *= (m * (1 - p)) / (m - most);
        });
        const more = (i) => point[i] * ((m - most) * rates[i]) / ((most + 1) * (1 - rates[i]));
        if (tail[0] + more(0) <= level) {
          rates.forEach((_, i) => { point[i] = more(i); tail[i] += point[i]; });
          most += 1;
        }
      }
      at = m;
      return tail.slice(1);
    };
  }

  // The same where so many records count.
  function passingOf(r, test, n, level, means, sds) {
    const v = unitLimit(r);
    if (r.two_valued) {
      const most = bounds.binomialQuantile(n, v, level);
      return means.map((mean) => (most < 0 ? 0 : bounds.lowerTail(most, n, mean)));
    }
    return scoresOf(r, test, n, level, means, sds).map(bounds.normalLower);
  }

  // The same as normal scores; counts are nearly normal too.
  function scoresOf(r, test, n, level, means, sds) {
    const v = unitLimit(r);
    if (r.two_valued) {
      const most = bounds.binomialQuantile(n, v, level);
      return means.map((mean) => (most < 0 ? -Infinity
        : (most + 0.5 - n * mean) / Math.sqrt(n * Math.max(mean * (1 - mean), NARROW))));
    }
    const cutoff = test === "chernoff" ? bounds.chernoffCutoff(n, v, level) : 0, needed = -Math.log(level);
    return means.map((mean, a) => {
      const sd = sds[a];
      if (test === "chernoff")
        return cutoff < 0 ? -Infinity : (cutoff - mean) * Math.sqrt(n) / sd;
      const stake = Math.min(Math.sqrt(2 * needed / n) / sd, TRUNCATION / (1 - v)), gap = v - mean;
      const growth = n * (stake * gap - stake ** 2 * (sd ** 2 + gap ** 2) / 2);
      return (growth - needed) / (stake * sd * Math.sqrt(n));
    });
  }

  // The chance that `least` releases or more pass every test at a level: sets of kinds that pass.
  function power(setting, n, R, level, least) {
    if (least > R) return 0;
    if (setting.kinds) return powerOfPilots(setting, n, R, level, least);
    const { chances, means } = kinds(setting), A = chances.length;
    let sets = new Map([[2 ** A - 1, 1]]);
    setting.requirements.forEach((r, j) => {
      const sds = means[j].map((mean) =>
        (r.sd === null ? 0.5 * Math.sqrt(mean * (1 - mean)) : r.sd / (r.high - r.low)));
      const tails = passing(r, setting.test, n, level, means[j], sds);
      const order = means[j].map((_, a) => a).sort((a, b) => means[j][a] - means[j][b] || a - b);
      const next = new Map();
      let first = 0, before = 1;
      for (let i = 0; i <= A; i += 1) {
        const passes = i < A ? tails[order[i]] : 0, chance = before - passes;
        if (chance !== 0)
          for (const [set, share] of sets) {
            const both = set & first;
            next.set(both, (next.get(both) ?? 0) + share * chance);
          }
        before = passes;
        if (i < A) first |= 1 << order[i];
      }
      sets = next;
    });
    let sum = 0;
    for (const [set, share] of sets) {
      let rate = 0;
      for (let a = 0; a < A; a += 1) if (set & (1 << a)) rate += chances[a];
      if (rate > 0) sum += share * bounds.upperTail(least, R, Math.min(rate, 1));
    }
    return Math.min(1, Math.max(0, sum));
  }

  // The same where releases are like pilots: their means have the effects of a target in common, and
  // given these they pass each by itself.
  function powerOfPilots(setting, n, R, level, least) {
    const { chances, valid, ratios, deviations, unsure } = setting.kinds, A = chances.length;
    const { shifts, own } = remembered(memory(setting).effects, setting.kinds, () => effects(setting.kinds));
    const sum = (which) => chances.reduce((total, chance, a) => total + (valid[a] === which ? chance : 0), 0);
    const lost = sum(false), each = [lost > 0 ? (1 - setting.reliability) / lost : 0, setting.reliability / sum(true)];
    const scores = setting.requirements.map((r, j) => {
      const means = ratios[j].map((ratio) =>
        Math.min(1, Math.max(0, unitLimit(r) - ratio * r.margin / (r.high - r.low))));
      // Where the population is unknown too, a mean strays further than that of its records.
      const further = Math.sqrt(1 + n * unsure[j]), inside = Math.max(1, Math.round(n * (r.share ?? 1)));
      return scoresOf(r, setting.test, inside, level, means, deviations[j]).map((score) => score / further);
    });
    let power = 0;
    for (const shift of shifts) {
      let rate = 0;
      for (let a = 0; a < A; a += 1) {
        let passes = chances[a] * each[Number(valid[a])];
        for (let j = 0; j < scores.length && passes > 0; j += 1)
          passes *= quickNormal((scores[j][a] - shift[j][a]) / own[j][a]);
        rate += passes;
      }
      if (rate > 0) power += bounds.upperTail(least, R, Math.min(rate, 1));
    }
    return Math.min(1, power / shifts.length);
  }

  // How far each point of the effects moves every mean, and what is left of its own.
  const effects = ({ loadings, points }) => ({
    shifts: points.map((point) => loadings.map((pilots) => pilots.map((loading) =>
      loading.reduce((moved, by, f) => moved + by * point[f], 0)))),
    own: loadings.map((pilots) => pilots.map((loading) =>
      Math.sqrt(1 - loading.reduce((common, by) => common + by * by, 0)))),
  });

  // The normal distribution between the lines of a table, by both values and slopes: to ten digits.
  const LINES = 128, FAR = 8;
  let table = null;
  function quickNormal(x) {
    if (x >= FAR) return 1;
    if (x <= -FAR) return 0;
    if (table === null) {
      table = { value: new Float64Array(2 * FAR * LINES + 1), slope: new Float64Array(2 * FAR * LINES + 1) };
      for (let i = 0; i <= 2 * FAR * LINES; i += 1) {
        const at = i / LINES - FAR;
        table.value[i] = bounds.normalLower(at);
        table.slope[i] = Math.exp(-at * at / 2) / Math.sqrt(2 * Math.PI) / LINES;
      }
    }
    const place = (x + FAR) * LINES, i = Math.floor(place), t = place - i, u = 1 - t;
    return u * u * ((1 + 2 * t) * table.value[i] + t * table.slope[i])
      + t * t * ((1 + 2 * u) * table.value[i + 1] - u * table.slope[i + 1]);
  }

  function withThreshold(setting, n, R, t) {
    let kappa = t;
    // Only counts leave gaps below t, and those of a subgroup change with its size.
    if (setting.requirements.every((r) => r.two_valued && (r.share ?? 1) >= 1))
      kappa = Math.max(...setting.requirements.map((r) => {
        const most = bounds.binomialQuantile(n, unitLimit(r), t);
        return most < 0 ? 0 : bounds.lowerTail(most, n, unitLimit(r));
      }));
    const least = bounds.criticalCount(R, setting.target, kappa, setting.alpha, envelopes(setting));
    return power(setting, n, R, t, least);
  }

  function withShare(setting, n, R, share) {
    const outer = setting.alpha * (1 - share);
    // The Clopper-Pearson limit exceeds the target exactly where the tail at it is below the level.
    const least = remembered(memory(setting).counts, `${R} ${share}`, () =>
      1 + bounds.lastWhole((k) => bounds.upperTail(k, R, setting.target) >= outer, 0, R + 1));
    return power(setting, n, R, setting.alpha * share / R, least);
  }

  function strongest(mode, choices, powerOf, n, R) {
    let best = { mode, n, R, power: 0, tuned: null };
    for (const tuned of choices) {
      const found = powerOf(tuned);
      if (found > best.power) best = { ...best, power: found, tuned };
    }
    return best;
  }
  const direct = (setting, n, R) =>
    strongest("direct", thresholds(R, setting), (t) => withThreshold(setting, n, R, t), n, R);
  const named = (setting, n, R) =>
    strongest("named", SHARES, (share) => withShare(setting, n, R, share), n, R);

  // Where these are no exact sums, proxyguard plan has simulated sizes around its own. Chances are
  // moved, as probits, by what they are off by there, and in between by what lies in between. With
  // other assumptions than those of the plan they are only ever lowered, by as much as at the size
  // at which margins so many times as wide would say the same.
  const MODES = { direct, named }, CLEAR = 1e-3;  // nearer to 0 or 1 targets are too few to tell
  const clear = (p) => bounds.normalQuantile(Math.min(1 - CLEAR, Math.max(CLEAR, p)));
  const NONE = 1e-9;  // what is moved is no nearer to 0 or 1
  const moved = (p, by) => (p <= 0 || by === 0 ? p
    : bounds.normalLower(bounds.normalQuantile(Math.min(1 - NONE, Math.max(NONE, p))) + by));
  const offsets = (setting, { records, draws, power }) => Object.fromEntries(Object.entries(MODES).map(([mode, powerOf]) =>
    [mode, draws.map((R, i) => records.map((n, j) => clear(power[mode][i][j]) - clear(powerOf(setting, n, R).power)))]));
  // Which two of these sizes another one lies between, and how far from the first, by ratios.
  function between(sizes, size) {
    let i = 0;
    while (i < sizes.length - 2 && sizes[i + 1] < size) i += 1;
    if (sizes.length < 2) return [0, 0, 0];
    return [i, i + 1, Math.min(1, Math.max(0, Math.log(size / sizes[i]) / Math.log(sizes[i + 1] / sizes[i])))];
  }
  function offset(setting, mode, n, R) {
    if (!setting.offsets) return 0;
    const { records, draws } = setting.simulated, table = setting.offsets[mode];
    const [i, k, down] = between(draws, R), [j, l, right] = between(records, n * setting.width ** 2);
    const by = (1 - down) * ((1 - right) * table[i][j] + right * table[i][l])
      + down * ((1 - right) * table[k][j] + right * table[k][l]);
    return setting.moved ? Math.min(0, by) : by;
  }
  function chance(setting, mode, n, R) {
    if (mode === "best") {
      const one = chance(setting, "direct", n, R), other = chance(setting, "named", n, R);
      return other.power > one.power ? other : one;
    }
    const found = MODES[mode](setting, n, R);
    return { ...found, power: moved(found.power, offset(setting, mode, n, R)) };
  }

  const fewestDraws = (claim) => {
    let R = 1;
    while (R < 10000 && !thresholds(R, claim).length) R += 1;
    return R;
  };

  function geometric(low, high, count) {
    const numbers = new Set([low, high]);
    for (let i = 0; i < count; i += 1) numbers.add(Math.round(low * (high / low) ** (i / (count - 1))));
    return [...numbers].sort((a, b) => a - b);
  }

  // For each number of draws the fewest records that reach the wanted chance, if any do.
  function frontier(setting, wanted) {
    const line = [], most = setting.most_records ?? MOST_RECORDS, least = setting.least_records ?? 1;
    const first = Math.max(fewestDraws(setting), setting.least_draws ?? 1);
    const draws = geometric(first, Math.max(first, setting.most_draws ?? Math.max(MOST_DRAWS, 4 * first)), SIZES);
    // The draws of the plan itself are one of those that are asked.
    if (setting.planned_draws >= first) draws.push(setting.planned_draws);
    let near = most;
    for (const R of [...new Set(draws)].sort((a, b) => a - b)) {
      // What reached it before is asked first: one that does is enough.
      const choices = [
        ...thresholds(R, setting).map((t) => ["direct", (n) => withThreshold(setting, n, R, t)]),
        ...SHARES.map((share) => ["named", (n) => withShare(setting, n, R, share)]),
      ];
      const short = (n) => {
        const enough = { direct: moved(wanted, -offset(setting, "direct", n, R)), named: moved(wanted, -offset(setting, "named", n, R)) };
        const reached = choices.findIndex(([mode, powerOf]) => powerOf(n) >= enough[mode]);
        if (reached > 0) choices.unshift(...choices.splice(reached, 1));
        return reached < 0;
      };
      // More draws need no more records than a few fewer did, or hardly: look there first.
      let low = least - 1, high = most + 1;
      if (near < most && !short(near)) high = near;
      else if (short(most)) { line.push({ R, n: null }); continue; }
      const half = Math.floor(high / 2);
      if (half > low && short(half)) low = half;
      const n = 1 + bounds.lastWhole(short, low, high);
      near = n;
      line.push({ R, n });
    }
    return line;
  }

  function cheapest(setting, line) {
    let least = null;
    for (const { R, n } of line) {
      if (n === null) continue;
      const cost = setting.each_record * n + setting.release_cost * R;
      if (least === null || cost < least.cost) least = { R, n, cost };
    }
    return least === null ? null : { ...chance(setting, "best", least.n, least.R), cost: least.cost };
  }

  return Object.freeze({ direct, named, chance, offsets, frontier, cheapest, fewestDraws, thresholds, geometric,
    MOST_RECORDS });
})();

(() => {
  const box = document.querySelector(".pg-plan");
  if (!box) return;
  const given = JSON.parse(box.querySelector("script").textContent);
  const $ = (selector) => box.querySelector(selector);
  const LINES = 41;
  let setting, n, R, wanted, line = [], waiting = 0, start = [];

  const whole = (x) => x.toLocaleString("en-US", { maximumFractionDigits: 0 });
  const percent = (x, digits = 1) =>
    `${x >= 0.9995 && x < 1 ? "more than 99.9" : (100 * x).toFixed(digits)}\u00a0%`;
  const short = (x) => String(Number(x.toPrecision(4)));
  const costOf = (records, draws) => setting.each_record * records + setting.release_cost * draws;
  // A slider of sizes goes by ratios: as many steps from 50 to 100 as from 500 to 1,000.
  const atStep = (low, high, step) => Math.round(low * (high / low) ** (step / 1000));
  const stepOf = (low, high, x) => (low < high ? 1000 * Math.log(x / low) / Math.log(high / low) : 0);

  const sliders = [...box.querySelectorAll("input[type=range]")];
  // What was simulated is all that is shown, where the page computes no exact sum.
  const ends = given.simulated
    ? { records: given.simulated.records, draws: given.simulated.draws }
    : { records: [Math.min(20, given.n), Math.max(planner.MOST_RECORDS, given.most_records, given.n)],
        draws: [Math.min(5, given.releases), Math.max(2000, given.releases)] };
  for (const [name, sizes] of Object.entries(ends)) ends[name] = [sizes[0], sizes[sizes.length - 1]];
  const MOST = ends.records[1];
  const number = (name) => Number($(`#pg-${name}`).value);
  const size = (name) => atStep(...ends[name], number(name));
  const setSize = (name, x) => { $(`#pg-${name}`).value = stepOf(...ends[name], x); };

  function read() {
    n = size("records");
    R = size("draws");
    wanted = number("wanted") / 100;
    const target = number("target") / 100;
    const margins = given.requirements.map((r, j) => number(`margin-${j}`));
    setting = {
      ...given, target, reliability: Math.max(number("reliability") / 100, target), offsets,
      moved: slid(/target|reliability|margin/), width: Math.min(...given.requirements.map((r, j) => margins[j] / r.margin)),
      each_record: given.screening_cost + given.labelled * number("record-cost"),
      record_cost: number("record-cost"), release_cost: number("release-cost"),
      least_records: ends.records[0], most_records: MOST, planned_draws: given.releases,
      least_draws: given.simulated ? ends.draws[0] : 1,
      most_draws: given.simulated ? ends.draws[1] : Math.max(400, given.releases),
      requirements: given.requirements.map((r, j) => ({ ...r, margin: margins[j] })),
    };
  }

  function say(id, text) {
    const slider = $(`#pg-${id}`);
    $(`#pg-${id}-is`).textContent = text;
    slider.setAttribute("aria-valuetext", text);
  }

  function words() {
    say("records", whole(n));
    say("draws", whole(R));
    say("wanted", `${number("wanted")}\u00a0%`);
    say("target", `${number("target")}\u00a0%`);
    say("reliability", `${(100 * setting.reliability).toFixed(1)}\u00a0%`);
    say("record-cost", short(setting.record_cost));
    say("release-cost", short(setting.release_cost));
    setting.requirements.forEach((r, j) => say(`margin-${j}`, short(r.margin)));
  }

  // Pictures.

  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 300, LEFT = 54, RIGHT = 16, TOP = 34, BOTTOM = 44;
  let WIDTH = 560;  // of the picture at hand: letters keep their size on every screen
  function mark(parent, name, attributes, text) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }
  const logScale = (low, high, from, to) => (x) => from + (to - from) * Math.log(x / low) / Math.log(high / low);
  function roundNumbers(low, high) {
    const found = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10)
      for (const lead of [1, 2, 5]) if (lead * power >= low && lead * power <= high) found.push(lead * power);
    // Fewer where they would run into each other.
    return [found, found.filter((x) => /^[15]0*$/.test(String(x))), found.filter((x) => /^10*$/.test(String(x)))]
      .find((some) => some.length * 75 < WIDTH - LEFT) ?? [];
  }
  function axes(svg, x, y, xs, ys, xName, yName, yWords) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    for (const value of ys) {
      mark(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "pg-grid" });
      mark(svg, "text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end", class: "pg-quiet" }, yWords(value));
    }
    for (const value of xs) {
      mark(svg, "line", { x1: x(value), x2: x(value), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 5, class: "pg-axis" });
      const end = x(value) > WIDTH - RIGHT - 20;  // a number in the middle would be cut at the edge
      mark(svg, "text", { x: end ? WIDTH - 2 : x(value), y: HEIGHT - BOTTOM + 19,
        "text-anchor": end ? "end" : "middle", class: "pg-quiet" }, whole(value));
    }
    mark(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM, class: "pg-axis" });
    mark(svg, "text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle", class: "pg-label" }, xName);
    mark(svg, "text", { x: 2, y: 14, class: "pg-label" }, yName);
  }
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  function curves(svg, [low, high], at, powerAt, xName) {
    WIDTH = Math.max(260, svg.clientWidth);
    const x = logScale(low, high, LEFT, WIDTH - RIGHT);
    const y = (p) => HEIGHT - BOTTOM - p * (HEIGHT - BOTTOM - TOP);
    axes(svg, x, y, roundNumbers(low, high), [0, 0.25, 0.5, 0.75, 1], xName, "chance of validating", (p) => `${100 * p}\u00a0%`);
    mark(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(wanted), y2: y(wanted), class: "pg-target" });
    // The disc is a point of the curve: between two others it could lie beside it.
    const xs = [...new Set([...planner.geometric(low, high, LINES), ...(at > low && at < high ? [at] : [])])]
      .sort((a, b) => a - b);
    for (const [mode, look] of [["named", "pg-others"], ["direct", "pg-curve"]])
      mark(svg, "path", { d: path(xs.map((size) => [x(size), y(powerAt(mode, size))])), class: `${look} pg-open-line` });
    const now = powerAt("best", at);
    if (at >= low && at <= high) {
      mark(svg, "line", { x1: x(at), x2: x(at), y1: y(now), y2: HEIGHT - BOTTOM, class: "pg-whisker" });
      mark(svg, "circle", { cx: x(at), cy: y(now), r: 6.5, class: "pg-estimate" });
    }
  }

  const MAP = { low: [5, 400], high: ends.records };
  function map(cheapest) {
    const svg = $("#pg-map"), reach = line.filter((one) => one.n !== null);
    WIDTH = Math.max(260, svg.clientWidth);
    MAP.low = [line[0].R, Math.max(line[line.length - 1].R, R)];
    const x = logScale(...MAP.low, LEFT, WIDTH - RIGHT), y = logScale(...MAP.high, HEIGHT - BOTTOM, TOP);
    const inside = (records) => Math.min(MAP.high[1], Math.max(MAP.high[0], records));
    const rows = roundNumbers(...MAP.high);
    axes(svg, x, y, roundNumbers(...MAP.low), rows.length > 7 ? rows.filter((value) => /^[15]0*$/.test(String(value))) : rows,
      "draws", `target ${given.unit}`, whole);
    if (reach.length > 1) {
      const edge = reach.map((one) => [x(one.R), y(inside(one.n))]);
      const right = edge[edge.length - 1][0];
      mark(svg, "path", { d: `${path(edge)}L${right} ${TOP}L${edge[0][0]} ${TOP}Z`, class: "pg-enough" });
      mark(svg, "path", { d: path(edge), class: "pg-curve pg-open-line" });
      mark(svg, "text", { x: right - 8, y: TOP + 16, "text-anchor": "end", class: "pg-quiet" }, `${percent(wanted, 0)} and more`);
    }
    if (cheapest) {
      const same = planner.geometric(...MAP.low, 60).map((draws) =>
        [draws, (cheapest.cost - setting.release_cost * draws) / (setting.each_record || 1e-9)])
        .filter(([, records]) => records >= MAP.high[0] && records <= MAP.high[1]);
      mark(svg, "path", { d: path(same.map(([draws, records]) => [x(draws), y(records)])), class: "pg-target pg-open-line" });
      mark(svg, "path", { d: star(x(cheapest.R), y(inside(cheapest.n)), 11), class: "pg-star" });
    }
    if (R >= MAP.low[0]) mark(svg, "circle", { cx: x(R), cy: y(inside(n)), r: 6.5, class: "pg-estimate" });
  }
  function star(cx, cy, r) {
    const points = [];
    for (let i = 0; i < 10; i += 1) {
      const far = i % 2 ? r * 0.45 : r, turn = Math.PI * (i / 5 - 0.5);
      points.push([cx + far * Math.cos(turn), cy + far * Math.sin(turn)]);
    }
    return `${path(points)}Z`;
  }

  // Where somebody points on the map, the sliders follow.
  function follow(event) {
    const frame = $("#pg-map").getBoundingClientRect();
    WIDTH = Math.max(260, $("#pg-map").clientWidth);
    const share = (at, from, to) => Math.min(1, Math.max(0, (at - from) / (to - from)));
    const right = share((event.clientX - frame.left) / frame.width * WIDTH, LEFT, WIDTH - RIGHT);
    const up = share((event.clientY - frame.top) / frame.height * HEIGHT, HEIGHT - BOTTOM, TOP);
    setSize("draws", MAP.low[0] * (MAP.low[1] / MAP.low[0]) ** right);
    setSize("records", MAP.high[0] * (MAP.high[1] / MAP.high[0]) ** up);
    show();
  }

  // What is written for audit.toml.

  // JSON escapes as TOML does, but leaves the controls from U+007F on as they are.
  const quoted = (text) => JSON.stringify(text).replace(/[\u007f-\u009f]/g, (sign) =>
    `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`);
  // No exponent, which a declaration does not read.
  const decimal = (x) => (x >= 1e-4 ? String(x) : x.toFixed(20).replace(/0+$/, ""));
  function toml(found, chance) {
    const counted = setting.requirements.every((r) => r.two_valued);
    const some = setting.requirements.some((r) => r.two_valued);
    const margins = setting.requirements.map((r) => `${r.name} ${short(r.margin)}`).join(", ");
    const lines = [`# target: ${n} records; every mechanism: draws = ${R}`, "[claim]", `mode = "${found.mode}"`];
    if (counted || !some) lines.push(`test = "${counted ? "binomial" : setting.test}"`);
    else lines.push("# no test is named: shares get the binomial one and other losses betting by default");
    if (found.mode === "direct") lines.push('bound = "sharp"');
    if (found.tuned !== null)
      lines.push(found.mode === "direct" ? `threshold = "${decimal(found.tuned)}"` : `release_share = "${found.tuned}"`);
    const origin = slid(/reliability|margin/) ? `assumed margins (${margins})` : given.origin;
    lines.push(`reliability_target = "${setting.target}"`, `alpha = ${quoted(given.family_alpha)}`, "",
      "[plan]", `records = ${n}`, `draws = ${R}`, `power = "${chance.toFixed(3)}"`,
      `reliability = "${short(setting.reliability)}"`, `origin = ${quoted(origin)}`,
      `cost = "${Number(costOf(n, R).toPrecision(10))}"`, "[plan.margins]",
      ...setting.requirements.map((r) => `${quoted(r.name)} = "${short(r.margin)}"`));
    return `${lines.join("\n")}\n`;
  }

  function show() {
    read();
    words();
    const found = planner.chance(setting, "best", n, R);
    // Where nothing was moved stands what the plan itself has found, which may be simulated.
    const planned = sliders.every((slider, i) => slider.value === start[i]);
    const chance = planned ? given.power : found.power;
    $(".pg-chance").textContent = percent(chance);
    $(".pg-bar span").style.setProperty("inline-size", `${100 * chance}%`);
    $(".pg-chance-words").textContent = `chance that ${whole(n)} ` + (given.one
      ? `${given.unit} validate one release` : `${given.unit} and ${whole(R)} draws validate a reliability above ${number("target")}\u00a0%`) +
      `, for a cost of ${whole(costOf(n, R))}, ` + (planned ? "as proxyguard plan has it." : `in ${found.mode} mode.`);
    const at = (records, draws) => (mode) => planner.chance(setting, mode, records, draws).power;
    curves($("#pg-by-records"), ends.records, n, (mode, x) => at(x, R)(mode), given.one ? given.unit : `${given.unit}, with ${whole(R)} draws`);
    const few = Math.min(Math.max(planner.fewestDraws(setting), setting.least_draws), R);
    curves($("#pg-by-draws"), [few, Math.max(setting.most_draws, R)], R, (mode, x) => at(n, x)(mode), `draws, with ${whole(n)} ${given.unit}`);
    $("#pg-toml").textContent = planned ? given.toml : toml(found, chance);
    box.classList.add("pg-working");
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => { waiting = requestAnimationFrame(search); });
  }

  let offsets = null;
  const slid = (which) => sliders.some((slider, i) => slider.value !== start[i] && which.test(slider.id));

  let key = "", cheap = null;
  function search() {
    // Sizes and costs do not move the line of least records.
    const asked = JSON.stringify([setting.requirements, setting.reliability, setting.target, wanted]);
    if (asked !== key) line = planner.frontier(setting, wanted);
    key = asked;
    // A size that was fixed for the plan, where the other was searched for, is no choice here.
    const draws = given.one || given.fixed === "draws", records = given.fixed === "records";
    cheap = planner.cheapest(setting, line.filter((one) =>
      (!draws || one.R === given.releases) && (!records || (one.n ?? 0) <= given.n)));
    // The plan itself is one that reaches it, where it does, by more targets than this page has.
    const own = costOf(given.n, given.releases);
    if (!setting.moved && given.power >= wanted - 1e-9 && (cheap === null || own < cheap.cost))
      cheap = { n: given.n, R: given.releases, cost: own };
    const held = `${draws ? ` with ${whole(given.releases)} draws` : ""}${records ? ` with ${whole(given.n)} ${given.unit}` : ""}`;
    map(cheap);
    box.classList.remove("pg-working");
    $(".pg-cheapest").textContent = given.one
      ? (cheap ? `Fewest for ${percent(wanted, 0)}: ${whole(cheap.n)} ${given.unit}.`
        : `No number up to ${whole(MOST)} ${given.unit} reaches ${percent(wanted, 0)}.`) : cheap
      ? `Cheapest for ${percent(wanted, 0)}${held}: ${whole(cheap.n)} ${given.unit} and ${whole(cheap.R)} draws, cost ${whole(cheap.cost)}.`
      : held ? `No size${held} reaches ${percent(wanted, 0)}.`
        : `No size up to ${whole(MOST)} ${given.unit} and ${whole(line[line.length - 1].R)} draws reaches ${percent(wanted, 0)}.`;
    $(".pg-take").hidden = !cheap;
  }

  function reset() {
    for (const slider of sliders) slider.value = slider.defaultValue;
    setSize("records", given.n);
    setSize("draws", given.releases);
    start = sliders.map((slider) => slider.value);
    read();
    if (given.simulated) offsets ??= planner.offsets(setting, given.simulated);
    const away = given.mode === "" ? `The plan's way, ${given.way}, is not on this page, ` +
      "which computes direct mode by p-values, and named mode: at other sizes its chances are about those. " : "";
    const range = `from ${whole(ends.records[0])} to ${whole(MOST)} ${given.unit}` +
      (given.one ? "" : ` and from ${whole(ends.draws[0])} to ${whole(ends.draws[1])} draws`);
    $(".pg-shift").textContent = away + (given.simulated ? `proxyguard plan has simulated sizes ${range}, less one error ` +
      "of the simulation: between them chances follow these, and beyond nothing is shown. With another reliability, " +
      "target or margin they are approximations, lowered where this page was too hopeful." : "");
    show();
  }

  box.addEventListener("input", show);
  $(".pg-reset").addEventListener("click", reset);
  $(".pg-take").addEventListener("click", () => {
    setSize("records", cheap.n);
    setSize("draws", cheap.R);
    show();
  });
  $(".pg-copy").addEventListener("click", async () => {
    const text = $("#pg-toml");
    getSelection().selectAllChildren(text);
    try {
      await navigator.clipboard.writeText(text.textContent);
      $(".pg-copied").textContent = "Copied.";
    } catch {
      $(".pg-copied").textContent = "Selected: copy it with the keyboard.";
    }
  });
  $("#pg-map").addEventListener("pointerdown", (event) => {
    event.target.ownerSVGElement?.setPointerCapture?.(event.pointerId);
    follow(event);
  });
  $("#pg-map").addEventListener("pointermove", (event) => { if (event.buttons) follow(event); });
  addEventListener("resize", show);
  box.hidden = false;
  reset();
})();
