"""Findings on attacks: whether certificates were contradicted, and how many images turn beyond their radius."""

from audits.certification.attack_outcomes import Attacks, error_of
from audits.certification.measure import Counts
from audits.certification.rules import Rule
from audits.certification.wording import over_images
from audits.core.context import Draft
from audits.core.numbers import bounded, counted, point
from audits.core.records import Estimate
from audits.core.wording import many, span

CONTRADICTED, BY_ERROR = "certify.contradicted", "certify.contradiction-by-error"
FAILS = "An attack that fails proves nothing: another one may turn the image."


def find_attacks(draft: Draft, counts: Counts) -> None:
    """Add what attacks within the certified radius and beyond it found, and the warnings of both."""
    attacks = counts.attacks
    if attacks is None:
        return
    blind = sum(one.blind for one in attacks.outcomes)
    if blind:
        draft.warn(
            "attack-blind",
            f"{many(blind, 'attack', 'attacks')} of {len(attacks.outcomes):,} met no gradient in any step and went "
            "random ways: that these failed says even less.",
        )
    within, beyond = draft.get("attack_success", multiple=1), draft.get("attack_success", multiple=2)
    if within is None or beyond is None:
        return
    draft.warn("attack-fails", f"{FAILS} The shares of attacked images that turned are lower bounds.")
    if within.value > 0:
        _find_contradiction(draft, attacks, counts.rule, within)
    none = "" if within.value > 0 else "Within the certified radius it turned none. "
    draft.find(
        "certify.attacked",
        "info",
        f"{none}{_how(attacks)} {FAILS} So the interval bounds the share of certified images that some change of this "
        "length turns from below alone: its upper end is about this attack.",
        [beyond, within],
        headline=f"Twice as far as certified, the attack turned {attacks.turned_of(2)}: {span(beyond)}.",
        how_sure=f"{over_images(beyond)} {_test(attacks)}",
    )


def _find_contradiction(draft: Draft, attacks: Attacks, rule: Rule, within: Estimate) -> None:
    chance = draft.row("attack_error_chance")
    beyond_error = chance.value <= 1 - draft.level
    turned = many(attacks.hits(1), "image", "images")
    headline = (
        f"Certificates are contradicted: within the radius the attack turned {attacks.turned_of(1)}, {span(within)}."
        if beyond_error
        else f"Within the radius the attack turned {attacks.turned_of(1)}, {span(within)}, as error alone may do."
    )
    so = (
        "So more is wrong than error explains: what the network answers may depend on more than the pixels, or on how "
        "numbers are rounded, or the certificates are unsound."
        if beyond_error
        else "So many may be error alone; more images or a smaller alpha tell more."
    )
    draft.find(
        CONTRADICTED if beyond_error else BY_ERROR,
        "high" if beyond_error else "low",
        f"{turned} of {attacks.attacked:,} turned within the certified radius, where no change can turn the answer if "
        f"the certificate is true. If nothing else is wrong, as many or more turn with probability {point(chance)} at "
        f"most. {so}",
        [within, chance],
        headline=headline,
        how_sure=(
            f"An image turns by error where its certificate is false (probability {bounded(rule.alpha, up=True)} at "
            f"most) or the test of the attacked image errs ({bounded(attacks.setting.alpha, up=True)} at most), "
            f"together {bounded(error_of(attacks, rule), up=True)} at most for each of the "
            f"{counted(attacks.setting.images, 'images')} chosen before it was known which are certified; their noise "
            f"is independent. {_test(attacks)}"
        ),
    )


def _how(attacks: Attacks) -> str:
    setting = attacks.setting
    return (
        f"Of {counted(setting.images, 'images')} chosen at random, {attacks.attacked:,} are certified and were "
        f"attacked, in {many(setting.steps, 'step', 'steps')} that follow the gradient of the smoothed output over "
        f"{many(setting.draws, 'noisy copy', 'noisy copies')} each."
    )


def _test(attacks: Attacks) -> str:
    return (
        "An image counts as turned where fresh draws around what the attack made show that another class wins: exact "
        "binomial test against the rival that other draws name, wrong with probability "
        f"{bounded(attacks.setting.alpha, up=True)} at most."
    )
