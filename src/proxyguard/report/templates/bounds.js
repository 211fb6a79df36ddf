"use strict";
// Bounds that a page computes by itself: binomial tails, limits and quantiles, p-values of a bounded
// mean, and the sharp p-value of theory section 2. Relative errors are below 1e-12, but nothing is
// rounded to the safe side as Python does it: a page predicts, and certifies nothing.
const bounds = (() => {
  const EPSILON = 2 ** -52;

  // log(n!) less Stirling's formula, for whole n.
  const factorials = [1];
  for (let n = 1; n < 16; n += 1) factorials.push(factorials[n - 1] * n);
  function stirlingError(n) {
    if (n === 0) return 0;
    if (n < 16) return Math.log(factorials[n]) - ((n + 0.5) * Math.log(n) - n + 0.5 * Math.log(2 * Math.PI));
    const s = 1 / (n * n);
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * 691 / 360360))))) / n;
  }

  // x log(x/m) + m - x without cancellation where x is near m (Loader 2000).
  function deviance(x, m) {
    if (x === 0) return m;
    if (Math.abs(x - m) >= 0.1 * (x + m)) return x * Math.log(x / m) + m - x;
    const v = (x - m) / (x + m);
    let sum = (x - m) * v, term = 2 * x * v;
    for (let j = 1; j < 1000; j += 1) {
      term *= v * v;
      const next = sum + term / (2 * j + 1);
      if (next === sum) return sum;
      sum = next;
    }
    return sum;
  }

  // P(Bin(n, p) = k); q is 1 - p where the caller knows it better.
  function binomialPoint(k, n, p, q = 1 - p) {
    if (k < 0 || k > n) return 0;
    if (p <= 0) return k === 0 ? 1 : 0;
    if (q <= 0) return k === n ? 1 : 0;
    if (k === 0) return Math.exp(n * (p < 0.1 ? Math.log1p(-p) : Math.log(q)));
    if (k === n) return Math.exp(n * (q < 0.1 ? Math.log1p(-q) : Math.log(p)));
    const log = stirlingError(n) - stirlingError(k) - stirlingError(n - k)
      - deviance(k, n * p) - deviance(n - k, n * q);
    return Math.exp(log) * Math.sqrt(n / (2 * Math.PI * k * (n - k)));
  }

  // The point at k and all beyond it on the side away from the mean: ratios below 1, added up.
  function sumDown(k, n, p, q) {
    let term = 1, sum = 1;
    for (let j = k; j > 0 && term > sum * EPSILON / 8; j -= 1) {
      term *= (j * q) / ((n - j + 1) * p);
      sum += term;
    }
    return binomialPoint(k, n, p, q) * sum;
  }
  const sumUp = (k, n, p, q) => sumDown(n - k, n, q, p);

  // P(Bin(n, p) <= k)
  function lowerTail(k, n, p, q = 1 - p) {
    if (k >= n) return 1;
    if (k < 0) return 0;
    if (p <= 0) return 1;
    if (q <= 0) return 0;
    return k <= n * p ? sumDown(k, n, p, q) : 1 - sumUp(k + 1, n, p, q);
  }

  // P(Bin(n, p) >= k)
  function upperTail(k, n, p, q = 1 - p) {
    return lowerTail(n - k, n, q, p);
  }

  function bisect(holds, low, high) {  // holds at low, not at high
    for (let step = 0; step < 200; step += 1) {
      const middle = (low + high) / 2;
      if (middle <= low || middle >= high) break;
      if (holds(middle)) low = middle; else high = middle;
    }
    return low;
  }

  // The largest whole number in [low, high) at which a condition that holds at low still does.
  function lastWhole(holds, low, high) {
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (holds(middle)) low = middle; else high = middle;
    }
    return low;
  }

  const clopperPearsonLower = (k, n, alpha) =>
    (k === 0 ? 0 : bisect((p) => upperTail(k, n, p) <= alpha, 0, 1));
  const clopperPearsonUpper = (k, n, alpha) => 1 - clopperPearsonLower(n - k, n, alpha);

  // Where a search begins: good to three digits (Abramowitz and Stegun 26.2.23).
  function roughQuantile(t) {
    if (t > 0.5) return -roughQuantile(1 - t);
    const w = Math.sqrt(-2 * Math.log(t));
    return (2.515517 + w * (0.802853 + w * 0.010328))
      / (1 + w * (1.432788 + w * (0.189269 + w * 0.001308))) - w;
  }

  // The most errors whose tail at rate v is at most t, -1 if none is.
  function binomialQuantile(n, v, t) {
    const holds = (k) => lowerTail(k, n, v) <= t;
    let step = 1 + Math.floor(Math.sqrt(n * v * (1 - v)) / 16);
    let low = Math.min(n - 1, Math.max(-1, Math.floor(n * v + roughQuantile(t) * Math.sqrt(n * v * (1 - v)))));
    let high = low;
    while (low >= 0 && !holds(low)) { high = low; low = Math.max(-1, low - step); step *= 2; }
    if (high === low) {
      high = Math.min(n, low + step);
      while (high < n && holds(high)) { low = high; high = Math.min(n, high + step); step *= 2; }
    }
    return lastWhole(holds, low, high);
  }

  function normalLower(x) {
    if (x > 0) return 1 - normalLower(-x);
    if (x < -38.5) return 0;
    const point = Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI);
    if (x > -2) {
      let term = -x, sum = -x;
      for (let j = 3; Math.abs(term) > EPSILON / 8 * Math.abs(sum); j += 2) sum += (term *= x * x / j);
      return 0.5 - point * sum;
    }
    // Mills' ratio as a continued fraction, from its end.
    let ratio = 0;
    for (let j = 200; j >= 1; j -= 1) ratio = j / (-x + ratio);
    return point / (-x + ratio);
  }

  // Where normalLower is p: Halley's steps from three digits, each with thrice as many.
  function normalQuantile(p) {
    if (p > 0.5) return -normalQuantile(1 - p);
    let x = roughQuantile(p);
    for (let step = 0, off = 1; step < 3 && Math.abs(off) > 1e-6; step += 1) {
      off = (normalLower(x) - p) * Math.sqrt(2 * Math.PI) * Math.exp(x * x / 2);
      x -= off / (1 + x * off / 2);
    }
    return x;
  }

  // Bernoulli divergence d_B(m, v)
  const divergence = (m, v) => (m > 0 ? m * Math.log(m / v) : 0)
    + (m < 1 ? (1 - m) * Math.log((1 - m) / (1 - v)) : 0);
  const chernoffPvalue = (mean, n, v) => (mean >= v ? 1
    : Math.exp(-(deviance(n * mean, n * v) + deviance(n * (1 - mean), n * (1 - v)))));
  const hoeffdingPvalue = (mean, n, v) => (mean >= v ? 1 : Math.exp(-2 * n * (v - mean) ** 2));
  const binomialPvalue = lowerTail;

  // The largest mean whose p-value is at most t, -1 if none is.
  function chernoffCutoff(n, v, t) {
    if (n * Math.log1p(-v) > Math.log(t)) return -1;
    return bisect((m) => n * divergence(m, v) >= -Math.log(t), 0, v);
  }
  // g(b): the chance of k favorable scores or more out of R when a share b of the invalid scores.
  function scoreTail(k, R, target, b) {
    const fail = (1 - target) * (1 - b);
    return k <= 0 ? 1 : upperTail(k, R, 1 - fail, fail);
  }

  // g is convex, then concave: up to the point where the chord from 0 touches, its least concave
  // majorant is that chord.
  function envelope(k, R, target) {
    const base = scoreTail(k, R, target, 0);
    if (k >= R) return { base, slope: 1 - base, touch: 1 };
    const g = (b) => scoreTail(k, R, target, b);
    const derivative = (b) => {
      const fail = (1 - target) * (1 - b);
      return (1 - target) * k * binomialPoint(k, R, 1 - fail, fail) / (1 - fail);
    };
    const inflection = ((k - 1) / (R - 1) - target) / (1 - target);
    if (!(inflection > 0)) return { base, slope: Infinity, touch: 0 };
    const touch = bisect((b) => b * derivative(b) > g(b) - base, inflection, 1);
    return { base, slope: touch > 0 ? (g(touch) - base) / touch : Infinity, touch };
  }

  // p_sharp(k): of "the reliability is at most the target", when an invalid release scores with
  // probability kappa at the most.
  function sharpPvalue(k, R, target, kappa, known = envelope(k, R, target)) {
    if (k <= 0 || kappa >= 1 || target >= 1) return 1;
    return Math.min(1, kappa < known.touch ? known.base + kappa * known.slope
      : scoreTail(k, R, target, kappa));
  }

  const sharpLower = (k, R, kappa, alpha) => (sharpPvalue(k, R, 0, kappa) > alpha ? 0
    : bisect((eta) => sharpPvalue(k, R, eta, kappa) <= alpha, 0, 1));

  // The least count that validates, R + 1 if none does.
  const criticalCount = (R, target, kappa, alpha, known = envelope) =>
    1 + lastWhole((k) => sharpPvalue(k, R, target, kappa, known(k, R, target)) > alpha, 0, R + 1);

  // The largest threshold at which k favorable scores validate, 0 if there is none. A hundred
  // thousandth of alpha is left, as in Python.
  function largestThreshold(k, R, target, alpha, known = envelope(k, R, target)) {
    const level = alpha * (1 - 1e-5);
    if (k < 1 || known.base >= level) return 0;
    const chord = (level - known.base) / known.slope;
    if (k >= R) return chord;
    return Math.min(chord, (clopperPearsonLower(k, R, level) - target) / (1 - target));
  }

  return Object.freeze({
    binomialPoint, lowerTail, upperTail, clopperPearsonLower, clopperPearsonUpper, binomialQuantile,
    normalLower, normalQuantile, divergence, chernoffPvalue, hoeffdingPvalue, binomialPvalue,
    chernoffCutoff, envelope, sharpPvalue, sharpLower, criticalCount, largestThreshold,
    lastWhole,
  });
})();
