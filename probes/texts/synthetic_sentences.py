"""Synthetic English sentences from a grammar with common and rare topics, forms and words.

The sentences are made from a grammar: a topic gives people, things, deeds and places that go together, a form gives
the sentence. Topics, forms and words are chosen with weights that fall with their rank, as they do in real text, so
that a writer who keeps to what is common leaves out a part of the topics, forms and words.
"""

import re
from collections.abc import Mapping

import numpy as np

from probes.texts.ranked_choices import Choices, choose, ranked

FEWEST, MOST = 6, 16
"""Bounds on the words of a sentence."""
FALL = {"topic": 1.0, "form": 0.7}
"""A choice of rank r has a weight of r ** -fall."""
USUAL_FALL = 0.6
"""The fall of every list that `FALL` does not name."""

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeio]|u(?!s))")

# person | thing | deed, as its plain form/past | place | look
_TOPICS = """
baker|grandmother|cook|waiter|guest|butcher|student chef
bread|soup|cake|pie|pan|apple tart|salad|dumpling|bowl of rice|lemon
cut/cut|taste/tasted|serve/served|prepare/prepared|share/shared|burn/burnt|season/seasoned
in the kitchen|at the market|on the stove|at the long table|in the back of the shop
warm|sweet|fresh|salty|burnt|golden|spicy

teacher|pupil|headmistress|caretaker|new girl|librarian|classmate
book|lesson|pencil|map|essay|blackboard|spelling test|dictionary|timetable
read/read|forget/forgot|explain/explained|copy/copied|correct/corrected|finish/finished
at school|in the classroom|on the top shelf|in the library|behind the gym
short|difficult|boring|torn|useful|old|neat

driver|passenger|mechanic|conductor|traveller|cyclist|tourist
bus|train|ticket|car|suitcase|bicycle|tram|road map|spare wheel
miss/missed|park/parked|repair/repaired|board/boarded|lose/lost|rent/rented|clean/cleaned
at the station|on the motorway|near the bridge|in the garage|at the border
late|crowded|slow|noisy|cheap|dirty|empty

gardener|neighbour|farmer|shepherd|beekeeper|hired hand
rose|tomato|hedge|apple tree|spade|pumpkin|beehive|flower bed|wheelbarrow|vine
plant/planted|water/watered|pick/picked|dig up/dug up|trim/trimmed|sell/sold
in the garden|by the fence|behind the barn|in the greenhouse|along the path
ripe|green|tall|healthy|rotten|thirsty|wild

doctor|nurse|patient|dentist|surgeon|pharmacist|midwife
bandage|letter|prescription|tooth|needle|fever chart|broken arm|blood sample|wheelchair
check/checked|examine/examined|treat/treated|bring/brought|order/ordered|measure/measured
in the hospital|at the clinic|in the waiting room|beside the bed|on the third floor
painful|normal|swollen|serious|clean|infected|weak

goalkeeper|coach|striker|referee|captain|runner|swimmer
ball|match|goal|race|medal|whistle|penalty|trophy|training plan
win/won|watch/watched|kick/kicked|catch/caught|practise/practised|celebrate/celebrated
on the pitch|in the stadium|at the pool|on the bench|before half-time
fast|close|exciting|unfair|muddy|important|easy

clerk|manager|secretary|customer|accountant|inspector|trainee
report|letter|invoice|meeting|contract|computer|printer|budget|complaint|stapler
sign/signed|send/sent|cancel/cancelled|print/printed|discuss/discussed|delay/delayed
in the office|on the desk|at the bank|in the meeting room|by the lift
urgent|late|missing|wrong|expensive|official|long

singer|violinist|drummer|conductor|organist|choir boy
song|piano|concert|guitar|drum|waltz|symphony|microphone|violin string
play/played|hear/heard|record/recorded|tune/tuned|rehearse/rehearsed|hum/hummed
on the stage|in the church|at the opera|in the cellar bar|on the radio
loud|sad|quiet|slow|famous|solemn|lively

sailor|fisherman|captain|harbour pilot|diver|lighthouse keeper
boat|net|rope|anchor|lobster|sail|lantern|oar|barrel of herring
pull/pulled|tie/tied|mend/mended|raise/raised|drop/dropped|haul in/hauled in
at sea|in the harbour|off the coast|below deck|beside the pier
wet|heavy|rough|leaky|salty|rusty|calm

carpenter|plumber|builder|painter|electrician|landlord
door|roof|window|shelf|pipe|staircase|lamp|brick wall|drain|ladder
fix/fixed|paint/painted|break/broke|build/built|replace/replaced|measure/measured
in the attic|on the roof|under the sink|next to the front door|in the cellar
loose|crooked|solid|dusty|broken|narrow|blue

hunter|ranger|biologist|birdwatcher|hiker|zoo keeper
fox|owl|deer|nest|bear|hedgehog|beaver|eagle|footprint|badger
follow/followed|see/saw|photograph/photographed|feed/fed|frighten/frightened|count/counted
in the forest|by the river|near the lake|on the hill|in the tall grass
shy|hungry|rare|brown|young|dangerous|playful

judge|lawyer|witness|policeman|thief|detective|prison guard
case|letter|knife|alibi|verdict|diamond ring|fingerprint|safe|confession
hide/hid|steal/stole|question/questioned|find/found|deny/denied|describe/described
in court|at the police station|in the dark alley|behind the curtain|under the floor
false|guilty|strange|valuable|secret|bloody|convincing

astronomer|engineer|professor|pilot|astronaut|lab assistant
star|rocket|telescope|experiment|planet|formula|satellite|comet|microscope
observe/observed|launch/launched|discover/discovered|test/tested|invent/invented|calculate/calculated
in the laboratory|on the moon|at the observatory|above the clouds|in deep space
bright|distant|tiny|exact|round|unstable|invisible

king|queen|knight|monk|jester|blacksmith|princess
sword|castle|crown|dragon|horse|scroll|shield|golden goblet|battle
defend/defended|forge/forged|attack/attacked|swear by/swore by|conquer/conquered|bless/blessed
in the tower|on the throne|at the royal feast|across the moat|in the dungeon
noble|ancient|cursed|silver|mighty|wicked|wooden

tailor|seamstress|weaver|cobbler|bride|fashion model
shirt|coat|button|wedding dress|scarf|leather boot|zip|velvet hat
sew/sewed|wear/wore|iron/ironed|fold/folded|wash/washed|stitch/stitched
at the tailor's|in the wardrobe|on the hook|in front of the mirror|at the laundry
tight|elegant|woollen|wrinkled|red|striped|loose

banker|investor|merchant|trader|auctioneer|tax adviser
share|loan|gold coin|bond|house|oil painting|pension|cargo of silk
buy/bought|insure/insured|value/valued|pawn/pawned|inherit/inherited|auction/auctioned
on the stock exchange|in the vault|at the auction|in the family chest|overseas
risky|worthless|precious|taxable|profitable|overpriced|rare
""".strip()

_FORMS = """
{who} {past} {what} {place}.
{when}, {who} {past} {what} {place}.
There was a {look} {thing} {place} {when}.
{who} wanted to {deed} {what}, but it was too {look}.
I think that {who} {past} {what} {when}.
When {who} arrived, the {thing} was already {look}.
The {thing} {place} is {look}, and the {thing} is {look} too.
Have you seen the {look} {thing} {place}?
{who} and {who} {past} {what} {how}.
Please {deed} the {thing} before {who} comes back.
"Do not {deed} the {thing}," said {who} {how}.
If you {deed} {what}, {who} will be {mood}.
It took {who} {number} {unit} to {deed} the {thing}.
Nobody {place} could {deed} the {thing}, because it was so {look}.
Why did {who} {deed} {what} {when}?
{who} was {mood} because of {what} {place}.
Although the {thing} was {look}, {who} {past} it {how}.
The {person} who {past} the {thing} is {mood} today.
Never {deed} a {thing} without a {person}!
How {look} the {thing} looks {place}, thought {who}.
After {number} {unit}, {who} still could not {deed} {what}.
What a {look} {thing}, and what a {mood} {person}!
Neither {who} nor {who} {past} {what}.
{number} times {who} {past} the same {thing} {how}.
""".strip()

_COMMON = {
    "who": "the {person}|a {person}|my {kin}|{name}|the {mood} {person}|our {person}|{name}, the {person},",
    "what": "the {thing}|a {thing}|the {look} {thing}|a {look} {thing}|every {thing}|{owner} {thing}|{number} of them",
    "owner": "my|her|his|their|our|your|somebody's",
    "kin": "brother|mother|sister|father|uncle|cousin|aunt|grandson|godmother|twin sister",
    "name": "Maria|Tom|Anna|Peter|Mr Hall|Lucy|Omar|Mrs Brandt|Ines|Viktor|Aunt Ada|Yusuf|Miss Okoro|old Samuel",
    "when": "yesterday|today|in the morning|last week|on Sunday|at night|in spring|before dinner|two years ago|"
    "during the storm|at half past six|on the first day of winter|long ago",
    "how": "again|quickly|with great care|together|in silence|without a word|by mistake|for the last time|"
    "with both hands|out of pity",
    "mood": "happy|tired|angry|surprised|proud|worried|grateful|lonely|curious|jealous|bored|homesick",
    "number": "three|two|ten|five|seven|a dozen|forty|a hundred",
    "unit": "days|hours|minutes|weeks|years|attempts|long nights",
}


def make_sentences(count: int, *, seed: int) -> list[str]:
    """Make English sentences of 6 to 16 words; fewer of them with the same seed are the first of the more.

    Few are alike by chance, as in any large collection of short texts.

    >>> make_sentences(3, seed=1) == make_sentences(5, seed=1)[:3]
    True
    """
    rng = np.random.default_rng(seed)
    topics, forms = _grammar()
    numbers = ranked([str(at) for at in range(len(topics))], FALL["topic"])
    sentences: list[str] = []
    while len(sentences) < count:
        words = topics[int(choose(numbers, rng))]
        sentence = _write(choose(forms, rng), words, rng)
        if FEWEST <= len(sentence.split()) <= MOST:
            sentences.append(sentence)
    return sentences


def _grammar() -> tuple[list[dict[str, Choices]], Choices]:
    common = {slot: ranked(words.split("|"), USUAL_FALL) for slot, words in _COMMON.items()}
    topics = []
    for block in _TOPICS.split("\n\n"):
        person, thing, deed, place, look = (line.split("|") for line in block.split("\n"))
        lists = {"person": person, "thing": thing, "place": place, "look": look}
        # Plain form and past are chosen apart: a sentence has one or the other.
        lists |= {"deed": [one.split("/")[0] for one in deed], "past": [one.split("/")[1] for one in deed]}
        topics.append(common | {slot: ranked(words, USUAL_FALL) for slot, words in lists.items()})
    return topics, ranked(_FORMS.split("\n"), FALL["form"])


def _write(form: str, words: Mapping[str, Choices], rng: np.random.Generator) -> str:
    while "{" in form:
        form = _SLOT.sub(lambda slot: choose(words[slot[1]], rng), form)
    form = _ARTICLE.sub(r"\1n ", form).replace(",,", ",").replace(",.", ".")
    start = 1 if form[0] == '"' else 0
    return form[:start] + form[start].upper() + form[start + 1 :]
