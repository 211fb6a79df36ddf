"""The page of a first look in a browser: nothing asked from outside, the filter, the phone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxyguard.modes.evidence import Decision
from proxyguard.trial.page import trial_page
from proxyguard.trial.rows import Standing
from proxyguard.trial.trial import SeenConclusion, SeenRequirement, SeenVerdict, Trial

if TYPE_CHECKING:
    from report.browser.conftest import Opener

NAMES = tuple(f"synthetic-{k:02d}.csv" for k in range(40))


def trial(*, unseen: bool = True, count: int = 40) -> Trial:
    """Return a trial of so many releases, with names and notes that would act as markup."""
    estimates = tuple(-1.0 + k / 10 for k in range(count))
    error = SeenRequirement(
        name="error", promise="A model trained on a release is wrong on less than 5 more.",
        limit=5.0, unit=" of 100 records", makers=("",) * count, releases=NAMES[:count],
        estimates=estimates, where=("",) * count,
    )  # fmt: skip
    verdict = SeenVerdict(
        name="releases", decision=Decision.VALIDATED, asked=0.8, lower=0.9, upper=1.0
    )
    conclusion = SeenConclusion(
        name="", decision=Decision.VALIDATED, sentences=("at least 90 % meet all.",)
    )
    return Trial(
        name="patients <b>.csv", standing=Standing.HELD_OUT if unseen else Standing.UNKNOWN,
        requirements=(error,), judged=(verdict,) if unseen else (),
        conclusions=(conclusion,) if unseen else (), columns=(),
        notes=("</script><script>alert(1)</script>",), declaration='name = "<i>&amp;"\n' * 40,
        power="", n_records=300,
    )  # fmt: skip


@pytest.mark.parametrize("unseen", [True, False])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_fits_and_asks_for_nothing(opened: Opener, width: int, unseen: bool) -> None:
    page = opened(trial_page(trial(unseen=unseen)), width=width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    first = page.locator(".pg-warning").inner_text()
    assert first.startswith("Exploratory" if unseen else "The releases may have seen")
    assert page.locator(".pg-verdict").count() == (1 if unseen else 0)
    assert page.locator("#audit-toml").inner_text().startswith('name = "<i>&amp;"')


def test_the_filter_leaves_the_releases_whose_name_has_what_is_typed(opened: Opener) -> None:
    page = opened(trial_page(trial()))
    rows = page.locator(".pg-filtered tbody tr")
    assert rows.count() == 40
    page.fill("#filter-trial", "C-3")
    shown = [row.inner_text() for row in rows.all() if row.is_visible()]
    assert len(shown) == 10
    assert shown[0].startswith("synthetic-30")


def test_few_releases_need_no_filter(opened: Opener) -> None:
    page = opened(trial_page(trial(count=3)))
    assert page.locator("#filter-trial").count() == 0
    assert page.locator("#releases").count() == 1
