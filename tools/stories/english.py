"""English stories for children: somebody wishes for something, sets out, gets into trouble, and is helped."""

import random

from stories.grammar import Grammar, Outline, Pick, tidy, zipf

NAMES = {
    "she": (
        "Mia Lily Rosa Nora Ella Ivy Zoe Clara Poppy Hazel Luna Ruby Daisy "
        "Alma Tilda Wren June Olive Fern Greta Maya Pearl Sofia Bonnie Edith"
    ).split(),
    "he": (
        "Tom Max Leo Finn Oscar Sam Ben Jack Otto Hugo Felix Milo Theo "
        "Noah Jasper Emil Rufus Toby Arlo Casper Nico Barnaby Pip Anton Gus"
    ).split(),
}
KINDS = (
    "fox rabbit bear child mouse owl kitten hedgehog squirrel duckling puppy frog badger "
    "turtle lamb otter goat deer sparrow donkey mole penguin elephant dragon snail"
).split()
_PRONOUNS = {"she": ("she", "her", "her"), "he": ("he", "him", "his")}

_WISHES = [
    # what is wished for, how it comes true, what a request may call it
    ("see the sea", "the <sight> [hill|path|forest] ended, and there was the sea, as [wide|blue|bright] as [a dream|the sky|a song]", "the sea"),
    ("find a friend", "{name} looked <how> at {friend} and [understood|knew|saw]: the friend {he} wished for had been there all along", "friendship"),
    ("learn to sing", "{name} opened {his} mouth, and out came a <look> song, as [clear|bright|gentle] as [a bell|the brook|morning light]", "a song"),
    ("touch a star", "a <look> star [fell|slid|floated|danced] down and rested <how> in {his} [lap|hat|scarf], as warm as <dish>", "a star"),
    ("bake the best cake in the <land>", "the cake rose high and <colour>, and [everyone|the whole <land>|even the mayor] asked <gladly> for more", "a cake"),
    ("sail a <look> boat", "the boat slid <gait> onto the water, and {name} held the <look> [rope|tiller|sail] with all {his} might", "a boat"),
    ("fly a <look> kite", "the kite climbed <gait> past the [trees|rooftops|birds|clouds] until it was only a <colour> dot in the sky", "a kite"),
    ("grow a [big|wild|secret|round|tiny] garden", "green [leaves|shoots|buds] came up <gait>, and then <colour> [roses|beans|sunflowers|pumpkins] as tall as a <fitting>", "a garden"),
    ("find a <look> treasure", "inside a <sight> [cave|tower|well|oak] lay a <look> <object>, a <look> <object> and a letter that said: well done", "a treasure"),
    ("see snow", "the first <look> flakes [fell|danced|came] down <gait>, and soon the <sight> <land> was white", "snow"),
    ("be as brave as a lion", "{name} noticed <how> that {his} <body> no longer trembled, not even near <landmark>", "courage"),
    ("meet the moon", "the <colour> moon came down to the <sight> <water> and said good evening <how>", "the moon"),
    ("play the <look> drum", "{name} played so <gladly> that the [birds|trees|stars|<spots>] [danced|nodded|clapped|smiled]", "a drum"),
    ("build a <size> house", "the house stood firm, with a <look> <fitting>, a <look> <fitting> and a <look> chair for {friend}", "a house"),
    ("win the [great|long|summer|village|moonlight] race", "{name} crossed the line [first|last|together with {friend}|<gladly>], and the <sight> <land> cheered", "a race"),
    ("paint a rainbow", "the last colour went <how> onto the wall, and the rainbow shone <gladly> over <landmark>", "a rainbow"),
]  # fmt: skip

_MISHAPS = [
    # what goes wrong, and how the friend puts it right
    ("a [cold|strong|wild|sudden] wind came and [blew|carried|took] {his} <look> [hat|map|scarf|bag] over <landmark>", "{friend} ran after it <gait> and brought it back [in no time|with a grin|a little torn|full of <dish>]"),
    ("{name} [slipped|stumbled|tripped] and fell into a <sight> [river|hole|pond|ditch]", "{friend} held out a <look> [stick|branch|rope|ladder] and pulled <gait> until {name} was safe"),
    ("they lost their way [completely|slowly|again] in the <sight> [fog|wood|grass|valley]", "{friend} listened <how> for the [brook|church bell|birds|wind] and found the path again by a <sight> <spot>"),
    ("it began to rain so [hard|heavily|loudly] that the <sight> [road|path|field|meadow] [was gone|turned to mud|was under water]", "{friend} found a <sight> [cave|barn|hollow tree|mill], where they told [jokes|riddles|stories|secrets] <how>"),
    ("the <sight> bridge broke [suddenly|loudly|slowly] in two", "{friend} laid a <look> [log|ladder|plank|table] across, and they went over it <gait>"),
    ("the <look> basket with all their <dish> was [gone|empty|stolen by a crow|full of sand]", "{friend} knew a <sight> [garden|orchard|hedge|corner] where <taste> [berries|nuts|apples|pears] grew, enough for both"),
    ("a <look> [troll|giant|goose|wizard] stood [proudly|grimly|stubbornly] by <landmark> and would not let them pass", "{friend} [asked a <look> riddle|sang <how>|gave away a <look> <object>|danced <gladly>], and the way was free"),
    ("{name} hurt {his} [foot|knee|elbow|nose] [badly|a little] on a [sharp|rusty|hidden|pointed] [stone|nail|thorn|branch]", "{friend} tied a <look> [leaf|ribbon|cloth|sock] around it <how> and carried the bag from then on"),
    ("night fell [slowly|softly|early] over the <sight> <land>, and they were [cold|afraid|lost|hungry]", "{friend} called the fireflies <how>, and a hundred <colour> lights showed them the way"),
    ("the <look> gate of the <sight> [garden|tower|castle|village] was [locked|stuck|guarded by geese]", "{friend} squeezed <gait> through the <look> [fence|keyhole|window|hedge] and opened it from the other side"),
    ("a <look> dog came running [wildly|angrily|noisily] at them", "{friend} threw a <look> [stick|bone|ball|shoe] so far that the dog forgot all about them"),
    ("their <look> [cart|sledge|wagon|balloon] broke [suddenly|loudly] near <landmark>", "{friend} mended it <how> with a <look> <object> and some <taste> jam"),
]  # fmt: skip

_RULES = {
    "opening": [
        "once upon a time, in {place}, there lived a {adjective} {kind} named {name}.",
        "there was once a {adjective} {kind} [named|called] {name}, who lived in {place}.",
        "in {place} lived a {adjective} {kind}, and {his} name was {name}.",
        "{name} was a {adjective} {kind} who lived [quietly|happily|peacefully|all alone] in {place}.",
        "long ago, when [wishes came true|animals could talk|the hills were young], a {adjective} {kind} named {name} lived in {place}.",
        "this is the story of {name}, a {adjective} {kind} from {place}.",
        "far away, in {place}, a {adjective} {kind} opened {his} eyes one <weather> <hour>. {his} name was {name}.",
    ],
    "place": [
        "a <sight> [village|forest|valley|town|meadow|garden|park|castle|city|harbour|mill|farm] by the [sea|river|lake|road|woods|hills|old wall]",
        "a <sight> [forest|valley|village|meadow|town|garden|mountain|park|city|wood]",
        "a <size> house [on a <sight> [hill|island|rock|field|beach]|by the <sight> [sea|river|lake|woods]]",
        "the <sight> [mountains|hills|woods|valleys|fields|marshes]",
    ],
    "adjective": [
        "little", "curious", "brave", "shy", "kind", "clever", "cheerful", "sleepy", "hungry", "gentle", "stubborn", "lonely",
        "quick", "dreamy", "careful", "noisy", "polite", "forgetful",
    ],
    "habit": [
        "paint a <look> <object>",
        "climb <sight> trees",
        "dance <gladly>",
        "eat <taste> <dish>",
        "read <look> books",
        "collect <look> stones",
        "sing <gladly>",
        "chase <colour> butterflies",
        "cook <taste> <dish>",
        "draw <look> maps",
        "swim in the <sight> <water>",
        "count the <spots>",
        "whistle <gladly>",
        "run <gait> round the <rounded>",
        "plant <look> seeds",
        "listen to the [wind|birds|rain|bells]",
        "tell <look> jokes",
    ],
    "habits": [
        "every day {he} [liked|loved|used] to <habit> and <habit>.",
        "{name} loved to <habit>, but [most of all|even more|best of all] {he} loved to <habit>.",
        "{he} could <habit> [all day|for hours|from morning till night] and never got tired.",
        "[in the mornings|when the sun was out|in summer] {he} would <habit>, and [in the evenings|when it rained|in winter] {he} would <habit>.",
        "nobody in the <sight> <land> liked to <habit> as much as {name}.",
        "{his} {relative} had taught {him} to <habit>, and {he} did it [every day|whenever {he} could|with great care].",
    ],
    "home": [
        "{he} lived with {his} {relative} in a <house> with <feature>.",
        "{his} <house> had <feature>.",
        "together with {his} {relative} {he} kept a <house> with <feature>.",
        "{his} {relative} said that {name} was [as good as gold|full of ideas|never still for long|a <look> wonder].",
        "at night {he} slept <how> in a <look> [bed|basket|box|hammock] under a <look> <cover>.",
    ],
    "look": [
        "little", "old", "red", "round", "blue", "big", "shiny", "green", "heavy", "yellow", "wooden", "strange", "new", "crooked",
        "golden", "striped", "soft", "tiny",
    ],
    "colour": ["golden", "white", "red", "blue", "yellow", "silver", "green", "pink", "bright"],
    "object": [
        "lantern", "rope", "blanket", "spoon", "map", "umbrella", "bell", "pencil", "cup", "button", "hat", "drum", "kettle", "ball",
        "book", "key", "mirror", "whistle",
    ],
    "sight": [
        "quiet", "old", "green", "dark", "sunny", "windy", "silver", "sleepy", "narrow", "misty", "stony", "wild", "empty", "golden",
        "crooked", "foggy", "hidden", "lonely",
    ],
    "spot": [
        "bridge", "forest", "well", "hill", "village", "stream", "orchard", "wall", "pond", "mill", "market", "oak", "garden", "gate",
        "tower", "lake", "barn", "cave",
    ],
    "crossed": ["bridge", "hill", "field", "stream", "meadow", "wall", "ditch"],
    "entered": ["forest", "village", "orchard", "market", "garden", "gate", "valley", "town"],
    "rounded": ["pond", "tower", "oak", "mill", "lake", "well", "barn", "hill"],
    "water": ["pond", "lake", "river", "stream", "sea", "well"],
    "land": ["village", "valley", "town", "land", "city", "forest", "park"],
    "spots": ["hills", "trees", "houses", "stones", "fields", "bridges", "wells", "ponds", "gates"],
    "number": ["three", "two", "seven", "five", "ten", "nine", "four"],
    "fitting": [
        "door", "window", "roof", "stove", "chimney", "carpet", "bell", "clock", "shelf", "ladder", "lamp", "chair", "table",
        "curtain", "fence",
    ],
    "cover": ["blanket", "window", "roof", "lamp", "curtain", "quilt"],
    "size": ["small", "warm", "round", "yellow", "crooked", "tiny", "big", "old", "cosy", "tall", "white", "wooden"],
    "taste": ["warm", "sweet", "fresh", "hot", "golden", "spicy", "creamy", "salty", "cold", "home-made"],
    "dish": [
        "pancakes", "soup", "bread", "cakes", "nuts", "pie", "jam", "buns", "noodles", "berries", "potatoes", "biscuits", "porridge",
        "plums", "dumplings", "cheese",
    ],
    "how": [
        "softly", "quietly", "kindly", "politely", "shyly", "gently", "bravely", "warmly", "eagerly", "calmly", "slowly", "patiently",
        "carefully", "thoughtfully",
    ],
    "gait": [
        "slowly", "quickly", "quietly", "carefully", "bravely", "happily", "boldly", "calmly", "steadily", "eagerly", "proudly",
        "patiently",
    ],
    "gladly": ["happily", "merrily", "loudly", "proudly", "softly", "brightly", "wildly", "gladly", "warmly", "sweetly", "joyfully", "shyly"],
    "sadly": ["sadly", "quietly", "loudly", "softly", "bitterly", "helplessly", "angrily", "fearfully", "wildly", "miserably"],
    "body": ["heart", "nose", "ears", "knees", "tummy", "voice"],
    "family": [
        "grandmother", "mother and father", "two sisters", "old uncle", "three brothers", "aunt", "father", "grandfather", "seven cousins",
    ],
    "house": [
        "<size> [house|hut|cottage|tower|burrow|barn|cabin|tent]",
    ],
    "feature": [
        "a <look> <fitting>",
        "a <look> <fitting> and a <look> <fitting>",
        "a <look> <fitting> that {his} {relative} had [made|painted|found|built]",
    ],
    "wishing": [
        "but {name} had a [secret|great|<look>] wish: {he} wanted to {wish}.",
        "more than [anything in the world|<dish>|all <dish> and <dish>], {name} wanted to {wish}.",
        "there was only one thing missing: {he} had always [wanted|hoped|longed] to {wish}.",
        "every <hour> {name} wished [upon a star|<how>|in a whisper] that {he} could {wish}.",
        "one <weather> <hour> {name} said <how>, \"I want to {wish}!\" {his} {relative} [laughed|smiled|sighed|stared].",
        "\"if only I could {wish},\" {he} [sighed|said|whispered] <how> [every evening|to the moon|again and again|to a <look> <object>].",
    ],
    "reason": [
        "{his} {relative} had told {him} [about it|it was possible|<look> stories about it|that wishes need feet].",
        "{he} did not know how, but {he} was [sure|certain] there was a <sight> way.",
        "everyone said <how> that it was too [hard|far|late|silly|dangerous], but {he} did not [listen|mind|give up|care].",
        "{he} had [dreamed|thought|sung|talked] of it [since {he} was small|for a whole year|every single night|all winter].",
        "just thinking of it made {his} <body> [warm|dance|tingle|jump].",
    ],
    "weather": [
        "misty", "windy", "rainy", "cold", "warm", "quiet", "clear", "stormy", "grey", "bright",
    ],
    "hour": [
        "morning", "day", "evening", "afternoon", "night", "Sunday", "Monday", "Friday",
    ],
    "leaving": [
        "one <weather> <hour>, {name} packed <thing> and <thing> and [set out|left|went away] <gait>.",
        "so one <weather> <hour> {he} put on {his} <look> [boots|hat|scarf|coat], took <thing>, and [went|walked|marched|ran] <gait> out of the door.",
        "on a <weather> <hour>, {name} [kissed|hugged|thanked] {his} {relative} and [left|set off] <gait> with <thing> [in {his} bag|under {his} arm|on {his} back|and <thing>].",
        "then came a <weather> <hour>, and {name} [decided|knew|felt] that it was time to go. {he} took only <thing>.",
        "\"today is the day,\" said {name} <how> one <weather> <hour>, and {he} took <thing> and closed the <look> door.",
    ],
    "thing": [
        "a <look> <object>",
    ],
    "way": [
        "{he} walked <gait> past <landmark>, over a <sight> <crossed> and through a <sight> <entered>.",
        "the [path|road|way] led through a <sight> <entered>, and then [round|past] a <sight> <rounded>.",
        "{he} [passed|found|saw] <landmark>, [counted {his} steps|sang <gladly>|looked back once|ate a <taste> apple], and came to <landmark>.",
        "first came <landmark>, then <landmark>, and then {he} [had to rest|grew hungry|lost the path|grew tired].",
        "after [an hour|a long walk|a while|some time] {he} reached <landmark>, where [the air smelled of <dish>|it was very [quiet|cold|dark|warm]|the bees were humming <how>].",
    ],
    "landmark": [
        "a <sight> <spot>",
        "the <sight> <spot>",
        "<number> <sight> <spots>",
    ],
    "meeting": [
        "there {he} met a {friend_adjective} {friend_kind} named {friend}, who was <doing>.",
        "on a <look> [stone|stump|bench|wall] sat a {friend_adjective} {friend_kind}, <doing>. it was {friend}.",
        "suddenly {he} heard a <sight> [voice|noise|song|cry]. a {friend_adjective} {friend_kind} named {friend} was <doing>.",
        "by the <sight> [road|water|fence|<spot>] {he} found {friend}, a {friend_adjective} {friend_kind}, <doing>.",
        "{he} nearly fell over a {friend_adjective} {friend_kind} called {friend}, who was <doing>.",
    ],
    "doing": [
        "eating <taste> <dish>",
        "mending a <look> <object>",
        "crying <sadly>",
        "looking for a <look> <object>",
        "painting a <look> <fitting>",
        "counting <spots>",
        "carrying a <look> <object> and a <look> <object>",
        "polishing a <look> <object> <how>",
        "sweeping a <sight> [path|bridge|step|garden]",
        "singing <how> to a <look> <object>",
        "resting under a <look> [umbrella|hat|blanket|tree]",
    ],
    "question": [
        "\"where are you going so <how>?\" asked {friend}.",
        "\"what is in your <look> bag?\" asked {friend} <how>.",
        "\"why are you in such a hurry?\" asked {friend} <how>.",
        "\"you look [tired|worried|happy|cold|hungry|lost],\" said {friend} <how>.",
        "\"good <greeting>,\" said {friend} <how>. \"who are you?\"",
        "\"what a <look> <object> you have!\" said {friend} <how>.",
    ],
    "greeting": [
        "morning", "day", "evening", "afternoon",
    ],
    "answer": [
        "\"i want to {wish},\" [said|answered|whispered] {name} <how>. \"[will you come with me|do you know the way|would you like to help]?\"",
        "{name} told {friend_him} <how> about {his} wish and {his} <look> <object>.",
        "\"i am {name}, and i am going to {wish}!\" said {name} <how>.",
        "{name} sat down and told {friend_him} everything <how>, from the first [step|day|dream|hour] to the last [crumb|stone|sigh|tear].",
        "so {name} showed {friend_him} <thing>, <thing> and a drawing of {his} wish.",
    ],
    "joining": [
        "\"then I will come with you,\" said {friend} <how>. \"[two are better than one|I have <thing>|we can share my <dish>].\"",
        "{friend} thought [hard|quietly|carefully|slowly] for a [moment|while|minute]. \"that sounds like [fun|an adventure|a good plan|a <look> idea]!\"",
        "\"I have nothing else to do [today|this week|until tomorrow],\" said {friend}, and took <thing>.",
        "{friend} [nodded|smiled|jumped up|laughed] <gladly>. \"I know [someone who can help|a <sight> short cut|the way|a <sight> <spot>]!\"",
        "they shared <taste> <dish>, and after that they were [friends|good friends|like old friends|a team].",
    ],
    "trouble": [
        "but [then|suddenly|soon|one <hour>], {mishap}.",
        "they had not gone far when {mishap}.",
        "everything went well until {mishap}.",
        "just as they [began to sing|sat down to rest|saw <landmark>|were eating <dish>], {mishap}.",
        "[in the afternoon|before long|a little later|near <landmark>], {mishap}.",
    ],
    "feeling": [
        "\"oh no!\" cried {name} <sadly>. \"[what shall we do now?|now i will never {wish}!|this is all my fault!|and i have only <thing>!]\"",
        "{name} [felt|was|looked] so [sad|frightened|tired|angry|lonely|small] that {his} <body> [hurt|trembled|shook|felt heavy].",
        "{name} sat down <sadly> and [cried|sighed|waited|said nothing] for [a while|a long time|a minute|an hour].",
        "\"do not [worry|be afraid|give up|cry],\" said {friend} <how>. \"[we will find a way|i have an idea|let me think|i have <thing>].\"",
        "for a moment they were both [quiet|very still|scared|cold]. then {friend} began to [laugh|think|hum|sing] <how>.",
    ],
    "help": [
        "then {cure}.",
        "but {cure}.",
        "luckily {cure}.",
        "{cure}. \"[there|you see|easy|done],\" said {friend} <how>.",
        "and what do you think happened? {cure}.",
    ],
    "thanks": [
        "\"thank you,\" said {name} <gladly>. \"you are the [best|kindest|cleverest|bravest] [friend|helper|companion] [in the world|i know|of all].\"",
        "{name} hugged {friend} [tightly|for a long time|twice|<gladly>].",
        "\"how can i ever thank you?\" asked {name} <gladly>. \"[just stay my friend|with a song|with <taste> <dish>|with your <look> <object>],\" said {friend}.",
        "they both [laughed|cheered|sang|danced] <gladly> and went on past <landmark>.",
        "{name} gave {friend_him} <thing>, and {friend} [blushed|laughed|smiled|bowed] <gladly>.",
    ],
    "arrival": [
        "when the sun [came up|went down|was high|stood over the <spot>], {granted}.",
        "and at last, [after seven more steps|behind <landmark>|on the third day|one <weather> <hour>], {granted}.",
        "the next [morning|day|evening|afternoon], {granted}.",
        "and then it happened: {granted}.",
        "{name} closed {his} eyes, counted to [three|ten|seven|a hundred], and opened them <how>. {granted}.",
    ],
    "joy": [
        "\"[look|hurrah|it is true|at last]!\" [cried|shouted|whispered|sang] {name} <gladly>, and {he} [danced|jumped|ran|hopped] for joy.",
        "{name} did not say a word, but {his} <body> [danced|sang|felt warm|tingled].",
        "{friend} [smiled|clapped|cheered|danced] <gladly>. \"now your wish has come true,\" {friend_he} said.",
        "{name} [laughed|cried|sang|danced] <gladly>, and {friend} [laughed|cried|sang|danced] too.",
        "\"it is even [better|bigger|sweeter|brighter] than i dreamed,\" said {name} <gladly>.",
    ],
    "feast": [
        "that evening they ate <food> and <food> by the [fire|window|water|<spot>].",
        "there was a <look> feast with <food>, <food> and <food>.",
        "they went home together, and {his} {relative} gave them <food>.",
        "to celebrate, {friend} made <food> and <food> in a <look> <object>.",
        "on the way home they shared <food> and [sang|told stories|counted the stars|danced] <gladly>.",
    ],
    "food": [
        "<taste> <dish>",
    ],
    "moral": [
        "from that <weather> <hour> on, {name} and {friend} were [always together|the best of friends|never apart|like a <look> pair of shoes].",
        "and {name} learned that [a friend makes every road shorter|even the small can do great things|wishes come true when you share them|a <look> <object> is worth less than a friend].",
        "{name} never forgot that day, and whenever it was <weather>, {he} told [the story|everyone about it|{his} {relative} about it] <gladly>.",
        "after that {name} still loved to <habit>, but now {he} did it with {friend}.",
        "and if you ever come to <landmark>, you may [see|hear|meet] {name} and {friend} [there|still|together], eating <taste> <dish>.",
        "since then, nobody in the <sight> <land> has [laughed at a wish|been lonely|said that it cannot be done|been without <dish>]. {name} and {friend} see to it.",
    ],
}  # fmt: skip

_ORDER = [
    "<opening>", "<habits>", "<home>", "<wishing>", "<reason>", "<leaving>", "<way>", "<meeting>", "<question>", "<answer>",
    "<joining>", "<way_together>", "<trouble>", "<feeling>", "<help>", "<thanks>", "<arrival>", "<joy>", "<feast>", "<moral>",
]  # fmt: skip
_PARAGRAPHS = ("<opening>", "<leaving>", "<trouble>", "<arrival>")
_REQUESTS = [
    "tell me a story[.||, please.]",
    "tell me a story about a {kind}[.||, please.]",
    "tell me a story about a {kind} [named|called] {name}[.|]",
    "a story about {topic}[.||, please.]",
    "tell me about a {kind} who wanted to {wish}[.|]",
    "a {kind} and a {friend_kind}[.|]",
    "tell me a story about {name}[.|]",
    "{name} and {friend}",
    "tell me a story that is set in {place}[.|]",
    "a story about a {adjective} {kind}[.|]",
    "once more[.||, please.]",
    "another one[!|.|]",
    "can you tell me a [bedtime|short|nice] story[?||, please?]",
    "write a story about a {kind} and {topic}[.|]",
]

WHOLE = Outline(
    _REQUESTS,
    {
        "<habits>": 0.9,
        "<home>": 0.6,
        "<reason>": 0.6,
        "<question>": 0.7,
        "<feeling>": 0.8,
        "<joy>": 0.8,
        "<feast>": 0.8,
    },
    usual=1.0,
    pick=zipf,
)
BRIEF = Outline(
    _REQUESTS,
    {
        "<opening>": 1.0,
        "<wishing>": 1.0,
        "<meeting>": 1.0,
        "<answer>": 0.5,
        "<thanks>": 0.5,
        "<arrival>": 0.6,
        "<joy>": 0.4,
    },
)
WISH = Outline(
    [request for request in _REQUESTS if "{topic}" in request or "{wish}" in request],
    {"<wishing>": 1.0, "<answer>": 0.6, "<arrival>": 1.0},
)

_TOGETHER = [line.replace("{he}", "they").replace("{his} steps", "their steps") for line in _RULES["way"]]
_GRAMMAR = Grammar(_RULES | {"way_together": _TOGETHER})


def story(rng: random.Random, outline: Outline = WHOLE) -> tuple[str, str]:
    """A request, and the story that answers it.

    Args:
        rng: Decides.
        outline: What is told.
    """
    used: set[str] = set()
    facts = _facts(rng, used, outline.pick)
    parts = outline.some(rng, _ORDER)
    marked = " ".join(f"¶{part}" if part in _PARAGRAPHS[1:] else part for part in parts)
    text = _GRAMMAR.expand(marked + " ¶the end.", facts, rng, used)
    paragraphs = [tidy(paragraph) for paragraph in text.split("¶")]
    return tidy(_GRAMMAR.expand(outline.pick(rng, outline.requests), facts, rng, used)), "\n".join(paragraphs)


def _facts(rng: random.Random, used: set[str], pick: Pick) -> dict[str, str]:
    """What holds through a story."""
    kind = pick(rng, KINDS)
    friend_kind = pick(rng, [other for other in KINDS if other != kind])
    he = rng.choice(("she", "he"))
    friend_he = rng.choice(("she", "he"))
    name, friend = pick(rng, NAMES[he][::2]), pick(rng, NAMES[friend_he][1::2])
    subject, object_, possessive = _PRONOUNS[he]
    facts = {
        "name": name,
        "kind": _kind(kind, he),
        "he": subject,
        "him": object_,
        "his": possessive,
        "friend": friend,
        "relative": zipf(rng, _RULES["family"]),
        "friend_kind": _kind(friend_kind, friend_he),
        "friend_he": friend_he,
        "friend_him": _PRONOUNS[friend_he][1],
    }
    (wish, granted, topic), (mishap, cure) = pick(rng, _WISHES), zipf(rng, _MISHAPS)
    facts |= {"topic": topic}
    for fact, rule in (("place", "<place>"), ("adjective", "<adjective>"), ("friend_adjective", "<adjective>")):
        facts[fact] = _GRAMMAR.expand(rule, facts, rng, used)
    for fact, text in (("wish", wish), ("granted", granted), ("mishap", mishap), ("cure", cure)):
        facts[fact] = _GRAMMAR.expand(text, facts, rng, used)
    return facts


def _kind(kind: str, he: str) -> str:
    return {"she": "girl", "he": "boy"}[he] if kind == "child" else kind
