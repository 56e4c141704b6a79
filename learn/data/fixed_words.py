"""Words of options, levels and criteria that don't come from a source, in English and Chinese."""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.records import Language

Sides = tuple[tuple[str, str], ...]

LEVELS: Mapping[Language, Mapping[int, tuple[tuple[str, ...], ...]]] = {
    "en": {
        2: (
            ("Not relevant", "Relevant"),
            ("It is about something else", "It is about exactly this"),
            ("no match", "match"),
        ),
        3: (
            ("Unrelated", "The same area, but something else is wanted", "Exactly this is wanted"),
            ("Nothing to do with it", "Related", "A full match"),
            ("useless", "somewhat useful", "just right"),
            ("Another subject altogether", "A neighbouring subject", "The very same"),
            ("Off topic", "Near the topic without hitting it", "On topic"),
            ("none", "partial", "full"),
        ),
        4: (
            ("Unrelated", "The same broad area", "Closely related, not the same", "The same"),
            ("No use", "Background at best", "Nearly what is needed", "What is needed"),
            ("none", "low", "medium", "high"),
            ("Miles away", "In the same field", "Next door", "Bull's eye"),
        ),
        5: (
            ("Of no interest", "Barely related", "Related", "Very near", "Exactly this"),
            ("very low", "low", "middling", "high", "very high"),
            ("Irrelevant", "A common field only", "Useful as background", "Nearly it", "It"),
        ),
    },
    "zh": {
        2: (("不相关", "相关"), ("说的是别的", "说的正是这个")),
        3: (
            ("无关", "同一领域,但要的是别的", "正是这个"),
            ("没有关系", "有些关系", "完全相符"),
            ("没用", "有点用", "正好"),
            ("低", "中", "高"),
        ),
        4: (
            ("无关", "大范围相同", "很接近但不同", "相同"),
            ("没用", "最多算背景", "差不多是需要的", "正是需要的"),
            ("无", "低", "中", "高"),
        ),
        5: (
            ("毫无关系", "略有关系", "有关系", "很接近", "正是如此"),
            ("很低", "低", "一般", "高", "很高"),
        ),
    },
}
"""From no match to a full one, by number of levels."""

DISTANCES: Mapping[Language, Mapping[int, tuple[tuple[str, ...], ...]]] = {
    "en": {
        2: (("On the spot", "Off the mark"),),
        3: (
            ("Not at all: it is exactly this", "A little: the same area", "Completely: unrelated"),
            ("on target", "near the target", "far from it"),
            ("no", "somewhat", "very"),
        ),
        4: (
            ("Spot on", "Close by", "Some way off", "Far off"),
            ("none", "small", "large", "total"),
        ),
    },
    "zh": {
        2: (("正中", "偏了"),),
        3: (("完全没有:正是这个", "一点:同一领域", "完全:无关"), ("不", "有些", "非常")),
        4: (("正中", "很近", "有些远", "很远"), ("没有", "小", "大", "完全")),
    },
}
"""From a full match to none."""

SIDES: Mapping[Language, Sides] = {
    "en": (
        ("Yes", "No"),
        ("This is right", "This is wrong"),
        ("It holds", "It doesn't hold"),
        ("The statement fits", "The statement doesn't fit"),
        ("Clearly so", "Not so"),
        ("I agree", "I disagree"),
    ),
    "zh": (("是", "否"), ("正确", "不正确"), ("成立", "不成立"), ("同意", "不同意")),
}
"""Criteria of a noul, true and false."""

VERDICTS: Mapping[Language, tuple[tuple[tuple[str, str], ...], ...]] = {
    "en": (
        (
            ("supported", "The text shows it"),
            ("open", "The text doesn't say"),
            ("contradicted", "The text shows that it isn't so"),
        ),
        (("true", ""), ("cannot be said", ""), ("false", "")),
        (("yes", ""), ("unknown", ""), ("no", "")),
        (
            ("right", "One can read it there"),
            ("undecided", "Nothing is said either way"),
            ("wrong", "What is there rules it out"),
        ),
        (("it follows", ""), ("it may or may not be", ""), ("it is excluded", "")),
    ),
    "zh": (
        (("支持", "文中可以看出"), ("不确定", "文中没有说"), ("矛盾", "文中看出并非如此")),
        (("真", ""), ("无法判断", ""), ("假", "")),
        (("是", ""), ("不知道", ""), ("否", "")),
    ),
}
"""Names and descriptions of the answers supported, open, contradicted."""

PAIR_VERDICTS: Mapping[Language, Sides] = {
    "en": (
        ("same request", "different requests"),
        ("same", "not the same"),
        ("equivalent in purpose", "of another purpose"),
        ("one pile", "two piles"),
    ),
    "zh": (("同一件事", "不同的事"), ("相同", "不同"), ("意图一致", "意图不一致")),
}
PAIR_ASKS: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "Compare what the two writers want.",
        "How do the two messages relate in what they ask for?",
        "Are these the same request?",
        "Decide whether the two belong together by what is wanted.",
    ),
    "zh": ("比较两条消息要办的事。", "两条是同一个请求吗?", "按要办的事,两条属于一类吗?"),
}
YES_NO: Mapping[Language, Sides] = {
    "en": (("yes", "no"), ("right", "wrong"), ("correct", "incorrect"), ("true", "false")),
    "zh": (("是", "否"), ("对", "不对"), ("属实", "不属实")),
}
NONE: Mapping[Language, tuple[str, ...]] = {
    "en": ("none of these", "something else", "other", "no option fits", "out of scope"),
    "zh": ("都不是", "其他", "没有合适的选项", "不在范围内"),
}
SUFFICE: Mapping[Language, tuple[tuple[str, str, str, str, str], ...]] = {
    "en": (
        (
            "only the first note is enough",
            "only the second note is enough",
            "each note is enough by itself",
            "only both together are enough",
            "not even both are enough",
        ),
        ("first alone", "second alone", "either one", "the two combined", "neither way"),
        (
            "The first does it without the second; the second by itself doesn't",
            "The second does it without the first; the first by itself doesn't",
            "Whichever of the two one takes, it does",
            "It takes the two of them",
            "It remains open even with the two of them",
        ),
    ),
    "zh": (
        (
            "只有第一条足够",
            "只有第二条足够",
            "每一条单独都足够",
            "两条合起来才足够",
            "两条合起来也不够",
        ),
        ("仅第一条", "仅第二条", "任一条", "两条一起", "都不行"),
    ),
}
NOTHING: Mapping[Language, tuple[str, ...]] = {
    "en": ("nothing is missing", "nothing", "all is known"),
    "zh": ("什么都不缺", "没有缺项", "都已知道"),
}
GO_AHEAD: Mapping[Language, tuple[str, ...]] = {
    "en": ("No question; go ahead.", "Nothing needs to be asked."),
    "zh": ("不用问,直接办理。", "没有需要问的。"),
}
STAY: Mapping[Language, tuple[str, ...]] = {
    "en": ("stay on this page", "stop: the page is right", "none, we are there"),
    "zh": ("留在这一页", "停下:就是这一页", "不用,已经到了"),
}
BEYOND: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "The {who} is older than forty.",
        "The {who} is younger than forty.",
        "The {who} wrote this on a phone.",
        "The {who} did not write this on a phone.",
        "A friend told the {who} to ask.",
        "Nobody told the {who} to ask.",
        "The {who} asked the same thing a year ago.",
        "The {who} has never asked this before.",
        "The {who} will ask again within a week.",
        "The {who} will not write again.",
        "The {who} lives in a big city.",
        "The {who} does not live in a big city.",
        "The {who} speaks two languages.",
        "The {who} has read the manual.",
        "The {who} has not read the manual.",
        "Somebody else will read the answer as well.",
        "The {text} was written before noon.",
        "The {text} was not written before noon.",
        "The {who} has several brothers.",
        "The {who} prefers an answer in writing.",
        "The {who} would rather have a short answer than a long one.",
        "The {who} has been with the service for years.",
        "The {who} is new to the service.",
        "The {who} found the service by chance.",
    ),
    "zh": (
        "{who}超过四十岁。",
        "{who}不到四十岁。",
        "{who}是用手机写的。",
        "{who}不是用手机写的。",
        "是朋友让{who}来问的。",
        "{who}一年前问过同样的事。",
        "{who}以前从没问过。",
        "{who}住在大城市。",
        "{who}不住在大城市。",
        "{who}看过说明书。",
        "这条{text}是上午写的。",
        "{who}用这项服务好几年了。",
        "{who}刚开始用这项服务。",
        "还有别人会看到回答。",
    ),
}
"""Statements that messages leave open."""

NOTES: Mapping[Language, Mapping[str, tuple[str, ...]]] = {
    "en": {
        "quote": ('They wrote: "{message}"', 'The words were: "{message}"', "Message: {message}"),
        "not": (
            "The {who} does not want to {wish}.",
            "It can't be a wish to {wish}.",
            "A colleague made sure that the aim is not to {wish}.",
        ),
        "either": (
            "It is a wish to {wish} or to {other}.",
            "The {who} wants one of two things: to {wish}, or to {other}.",
            "All but two are ruled out: {wish} and {other}.",
        ),
        "area": (
            "It has to do with {area}.",
            "The {who} chose the heading \u201c{area}\u201d.",
            "Subject: {area}.",
        ),
        "idle": (
            "The {who} wrote on a weekday.",
            "The {who} was polite.",
            "It is the second message of the day.",
            "An answer is expected by tomorrow.",
            "The {who} prefers e-mail.",
        ),
    },
    "zh": {
        "quote": ("原话是:\u201c{message}\u201d", "消息:{message}"),
        "not": ("{who}并不想{wish}。", "不会是想{wish}。"),
        "either": ("不是想{wish},就是想{other}。", "只剩两种可能:{wish},或者{other}。"),
        "area": ("事情与{area}有关。", "{who}选的标题是\u201c{area}\u201d。"),
        "idle": ("{who}是在工作日写的。", "{who}很有礼貌。", "{who}希望明天前得到答复。"),
    },
}
"""Notes on what somebody wants."""

POSITIONS: Mapping[Language, tuple[str, str]] = {
    "en": ("About the first message only. ", "About the second message only. "),
    "zh": ("只看第一条消息。", "只看第二条消息。"),
}
FIRST_ONLY: Mapping[Language, tuple[str, ...]] = {
    "en": ("Take the first note only. ", "Without the second note: ", "Look at the first note. "),
    "zh": ("只看第一条说明。", "不看第二条说明:"),
}
