"""``proxyguard``: the verbs, and what their exit codes mean.

0 done, 1 error, 2 usage, 5 integrity failure; ``open`` and ``run`` also 3 unresolved and
4 violation, the worst mechanism winning.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path

import typer

from proxyguard.cli import data, decide, demo, look, plan, prepare, show, study
from proxyguard.errors import ProxyGuardError

app = typer.Typer(
    name="proxyguard",
    help="Does work done on a substitute table hold on the real one? Sealed audits.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in (
    prepare.init, plan.plan, prepare.check, prepare.seal, prepare.register, prepare.amend,
    decide.draw, decide.grant, look.report, look.verify, look.status, look.log, look.doctor,
    decide.run, decide.deviate, decide.correct, prepare.schema, demo.demo,
):  # fmt: skip
    app.command()(verb)
app.command("open")(decide.open_)
app.add_typer(study.app, name="study")
app.add_typer(data.app, name="data")


def main() -> None:
    """Run one command; an error is one clear message and its code, never a traceback."""
    try:
        app()
    except ProxyGuardError as error:
        print(f"proxyguard: {error}", file=sys.stderr)
        sys.exit(show.exit_code(error))
    except OSError as error:
        print(f"proxyguard: {error}", file=sys.stderr)
        sys.exit(show.ERROR)
    except Exception as error:  # a fault of ours: say where, and that nothing recorded is lost
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"proxyguard: an error that should have been caught earlier: {type(error).__name__}: "
            f"{error} ({Path(where.filename).name}, line {where.lineno}); what was recorded is "
            "kept, please report this",
            file=sys.stderr,
        )
        sys.exit(show.ERROR)
    except KeyboardInterrupt:
        print("proxyguard: interrupted; what was recorded is kept", file=sys.stderr)
        sys.exit(show.ERROR)


if __name__ == "__main__":
    main()
