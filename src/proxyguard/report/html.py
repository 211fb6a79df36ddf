"""A report as one HTML page: no script, no request, readable on paper and in the dark."""

from __future__ import annotations

from proxyguard.report.content import Report

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ report.name }}</title>
<style>
:root { color-scheme: light dark; --line: #8886; --good: #1a7f4b; --open: #8a6100; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --good: #5bd49a; --open: #f0c14b; --bad: #ff8a80; }
}
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; }
.verdict { border: 1px solid var(--line); border-left: .5rem solid; border-radius: .4rem;
  padding: .6rem 1rem; margin: 1rem 0; break-inside: avoid; }
.VALIDATED { border-left-color: var(--good); } .VALIDATED b { color: var(--good); }
.UNRESOLVED { border-left-style: double; border-left-color: var(--open); }
.UNRESOLVED b { color: var(--open); }
.VIOLATION { border-left-style: dashed; border-left-color: var(--bad); }
.VIOLATION b { color: var(--bad); }
.verdict p { margin: .3rem 0; } .sentence { font-size: 1.1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left;
  vertical-align: top; overflow-wrap: break-word; }
small, .note { color: #777; } code { overflow-wrap: anywhere; }
@media print { body { max-width: none; margin: 0; } .wide { overflow: visible; } }
</style>
</head>
<body>
<main>
<h1>{{ report.name }}</h1>
<p>{{ report.purpose }}</p>
{% for verdict in report.verdicts %}
<section class="verdict {{ verdict.decision }}">
<p><b>{{ marks[verdict.decision] }} {{ verdict.decision }}</b>: {{ verdict.name }}</p>
<p class="sentence">{{ verdict.sentence }}</p>
{% for line in verdict.lines %}<p><small>{{ line }}</small></p>
{% endfor %}</section>
{% endfor %}
<p><strong>Guarantee: {{ report.guarantee }}.</strong> <em>{{ report.attestation }}.</em></p>
<h2>What this is about</h2>
<ul>{% for line in report.about %}<li>{{ line }}</li>{% endfor %}</ul>
<h2>Not claimed</h2>
<ul>{% for line in report.not_claimed %}<li>{{ line }}</li>{% endfor %}</ul>
{% if report.notes %}<h2>Notes</h2>
<ul>{% for line in report.notes %}<li>{{ line }}</li>{% endfor %}</ul>
{% endif %}
{% for table in report.tables %}
<h2>{{ table.title }}</h2>
<div class="wide" tabindex="0"><table>
<thead><tr>
{% for column in table.columns %}<th scope="col">{{ column }}</th>{% endfor %}
</tr></thead>
<tbody>
{% for row in table.rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}</tbody></table></div>
{% if table.note %}<p class="note">{{ table.note }}</p>{% endif %}
{% endfor %}
<h2>Check this</h2>
<p><code>{{ report.verify }}</code></p>
</main>
</body>
</html>
"""

MARKS = {"VALIDATED": "✓", "UNRESOLVED": "?", "VIOLATION": "✗"}


def to_html(report: Report) -> str:
    """Return the page; text written by users is escaped and cannot inject anything."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    return environment.from_string(_PAGE).render(report=report, marks=MARKS)
