"""`miles interference`: six languages, three trainings of each model, and as many held-out sentences as units.

Sentences are not ranked, so that ties have no meaning among them. Of likenesses and scores the languages themselves are
the units: three of them have no test, and twenty take two seconds each. Not all levels are run in all worlds: a matrix
takes .13 s, and the whole about ten minutes.
"""

from calibration.checks import NONE, Calibration, Case, Check
from calibration.interference_simulated import HARM, LANGUAGES, UNEVEN, simulate
from calibration.worlds import LEVELS, UNITS

SENTENCES = ("exchangeable", "unequal-spread", "informative-size", "dominant-unit", "rare-events")
OF_LANGUAGES = ("exchangeable", "unequal-spread", "rare-events", "ties")
"""Each language counts once: what is about sizes has no meaning for them."""
_ALL = (NONE, HARM, UNEVEN)
_NULL = (NONE, UNEVEN)
_CELLS = "all cells of the matrix, Holm, both signs"
_LIKE = "all likenesses, Holm"
_EFFECTS = "all effects of script and family, Holm"
_COLUMNS = "all columns of scores, Holm"
_FEW = (
    "The warning few-sentences, where fewer than 10 of equal length are there: with so few, intervals are too narrow, "
    "and verdicts too many, where a kind of sentence is missing among them."
)


def _estimate(name: str, estimand: str, family: str = "itself", effects: tuple[str, ...] = _ALL) -> Check:
    return Check(
        name=name, kind="estimate", estimand=estimand, family=family, effects=effects, worlds=SENTENCES, says=_FEW
    )


def _relation(name: str, estimand: str) -> Check:
    return Check(name=name, kind="estimate", estimand=estimand, effects=(LANGUAGES,), worlds=OF_LANGUAGES)


def _finding(name: str, estimand: str, family: str, effects: tuple[str, ...] = _NULL) -> Check:
    worlds = OF_LANGUAGES if effects == (LANGUAGES,) else SENTENCES
    says = "" if effects == (LANGUAGES,) else _FEW
    return Check(name=name, kind="finding", estimand=estimand, family=family, effects=effects, worlds=worlds, says=says)


def _power(name: str, estimand: str, family: str) -> Check:
    return Check(name=name, kind="power", estimand=estimand, family=family, effects=(HARM,), worlds=SENTENCES)


CHECKS = (
    _estimate("loss", "nats per byte of a language, over trainings and sentences"),
    _estimate("baseline", "nats per byte of a count of tokens, over sentences"),
    _estimate("interference", "loss with the source less loss alone"),
    _estimate("interference_relative", "the same as a share of the loss alone"),
    _estimate("asymmetry", "one cell of a pair less the other"),
    _estimate("received", "mean of a row"),
    _estimate("caused", "mean of a column"),
    _estimate("seed_deviation", "root mean square over cells of their standard deviation over trainings"),
    _estimate("script_effect[adjusted=no]", "mean cell of pairs of one script less that of others"),
    _estimate("script_effect[adjusted=yes]", "the same with family held fixed, by least squares"),
    _estimate("family_effect[adjusted=no]", "mean cell of pairs of one family less that of others"),
    _estimate("family_effect[adjusted=yes]", "the same with script held fixed, by least squares"),
    _estimate(
        "predicted_interference", "mean rise of the three best and three worst mixtures, as pairs add up",
        "simultaneous over all mixtures, of which the ends are told",
    ),
    _estimate("prediction_error[of=mixture]", "real loss in a mixture less the predicted one"),
    _estimate("prediction_error[of=triples]", "mean of these errors"),
    _relation("prediction_error[predictor=interference]", "mean error of a line through all other languages' scores"),
    _relation("prediction_error[predictor=mean]", "mean error of the mean of all other languages' scores"),
    _relation("similarity_correlation[column]", "rank correlation of cells with a number of langs.csv (it is 0)"),
    _relation("similarity_correlation[given]", "rank correlation of cells with a given similarity (it is 0)"),
    _relation("downstream_correlation[side=received]", "rank correlation of rows with scores (it is 0)"),
    _relation("downstream_correlation[side=cell]", "rank correlation of cells with scores (it is 0)"),
    *(
        _finding(f"p_value[test={test},correction=none]", f"the test of {what} rejects", "itself", (LANGUAGES,))
        for test, what in (
            ("script", "script"),
            ("column", "a number of langs.csv"),
            ("given", "a given similarity"),
            ("received", "scores of languages"),
            ("cell", "scores of pairs"),
        )
    ),
    _finding("interference.interference", "a cell is above 0", _CELLS),
    _finding("interference.synergy", "a cell is below 0", _CELLS),
    _finding("interference.asymmetry", "the cells of a pair differ", "all pairs, Holm"),
    _finding("interference.script[difference]", "pairs of one script hurt each other more or less", _EFFECTS),
    _finding("interference.family[difference]", "pairs of one family hurt each other more or less", _EFFECTS),
    _finding("interference.script[reason]", "script parts the cells beyond chance", _LIKE, (LANGUAGES,)),
    _finding("interference.similarity", "a likeness goes with the cells", _LIKE, (LANGUAGES,)),
    _finding("interference.mixtures", "a real mixture is off beyond the noise", "all mixtures and members, Holm"),
    _finding("interference.recommended", "two mixtures differ", "all ordered pairs of mixtures, Bonferroni"),
    _finding("interference.downstream[side=received]", "a score of languages goes with rows", _COLUMNS, (LANGUAGES,)),
    _finding("interference.downstream[side=cell]", "a score of pairs goes with cells", _COLUMNS, (LANGUAGES,)),
    _power("interference.interference", "pairs of one script hurt each other by .2 nats per byte", _CELLS),
    _power("interference.script[difference]", "pairs of one script hurt each other by .2 nats per byte", _EFFECTS),
)  # fmt: skip

REASONS = {
    "interference.matrix": "counts the verdicts of which interference.interference and synergy are the largest",
    "interference.untested": "tells that with one training nothing was tested",
    "interference.none": "tells that no cell has a number",
}


def _grid() -> tuple[Case, ...]:
    cells = [Case(world=world, units=units, level=0.95) for world in SENTENCES for units in UNITS]
    cells += [Case(world="exchangeable", units=units, level=0.9) for units in (5, 20)]
    cells += [Case(world="exchangeable", units=20, level=level) for level in LEVELS if level in (0.5, 0.999)]
    cells += [
        Case(world=world, units=units, level=0.95, effect=HARM)
        for world in ("exchangeable", "unequal-spread")
        for units in (5, 60)
    ]
    cells += [Case(world="exchangeable", units=units, level=0.95, effect=UNEVEN) for units in (20, 60)]
    cells += [Case(world=world, units=5, level=0.95, effect=LANGUAGES) for world in OF_LANGUAGES]
    cells += [Case(world=world, units=10, level=0.95, effect=LANGUAGES) for world in ("exchangeable", "ties")]
    return tuple(cells)


CALIBRATION = Calibration(
    checks=CHECKS,
    reasons=REASONS,
    simulate=simulate,
    effects={
        HARM: "pairs of one script hurt each other by .2 nats per byte, others not",
        UNEVEN: "no effect; every second model of a pair scatters over trainings four times as much as the others",
        LANGUAGES: "the units are the languages: what is known of them has nothing to do with the matrix",
    },
    quick=(
        *((Case(world=world, units=20, level=0.95), 6) for world in SENTENCES),
        (Case(world="exchangeable", units=60, level=0.95, effect=HARM), 4),
        (Case(world="exchangeable", units=5, level=0.95, effect=LANGUAGES), 15),
    ),
    grid=_grid(),
    full=lambda case: 100,
    worlds=(*SENTENCES, "ties"),
)
