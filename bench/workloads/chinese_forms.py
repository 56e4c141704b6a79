"""How Chinese questions of the six families are put."""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.workloads.lexicon import Family, Forms

_QUERIES = ("{topic}",)

FORMS: Mapping[Family, Forms] = {
    "routing": Forms(
        choice=(
            "这件事应该交给哪个部门？",
            "关于{thing}的问题应该由谁来答复？",
            "{thing}{event}时，应该转给谁？",
        ),
        options=("{team}",),
        score=(
            "{thing}的问题有多紧急，需要多快有人处理？",
            "处理{topic}的人需要多少经验？",
        ),
        levels=(("完全不", "有一点", "比较", "非常"), ("低", "中", "高")),
        noul=(
            "在任何人答应{thing}会{remedy}之前，必须先由{team}的专人查看这件事。",
            "这件事主要涉及{topic}，而不是{thing}本身，应该直接转给{team}处理。",
        ),
    ),
    "rewriting": Forms(
        choice=("哪个查询最能表达关于{thing}所问的内容？", "用哪个词能最快搜到{thing}的答案？"),
        options=_QUERIES,
        score=(
            "查询“{short}”在多大程度上保留了这里的意思？",
            "如果缩写成“{short}”，会丢失多少内容？",
        ),
        levels=(("很差", "部分", "完全"), ("没有", "一部分", "全部")),
        noul=(
            "即使不知道之前关于{topic}说过什么，也能看懂这里关于{thing}的内容，不会产生误解。",
            "把这里所问的内容改写成下面这句话，意思没有改变：{question}",
        ),
    ),
    "relevance": Forms(
        choice=("关于{thing}的内容最符合哪个查询？", "对哪个查询来说，{thing}的内容是好结果？"),
        options=_QUERIES,
        score=(
            "这与下面的查询有多相关：{question}",
            "对提出下面这个问题的人，这有多大用处：{question}",
        ),
        levels=(("不相关", "同一主题", "能够回答"), ("无用", "有用", "必不可少")),
        noul=(
            "想知道下面这个问题的人，应该把这段内容从头到尾读一遍：{question}",
            "这段内容与下面的问题直接有关，而不只是提到了同样的词：{question}",
        ),
    ),
    "sufficiency": Forms(
        choice=(
            "还缺什么：{question}",
            "还要先查什么：{claim}",
        ),
        options=("什么都不缺", "日期", "金额", "负责人", "规定", "证明"),
        score=(
            "根据已有内容，这个问题能回答多少：{question}",
            "关于{thing}的{topic}，我们掌握的信息有多完整？",
        ),
        levels=(("没有", "一半", "全部"), ("没有", "一些", "大部分", "全部")),
        noul=(
            "已有的内容足以回答下面的问题，不需要再搜索一次：{question}",
            "要判断{thing}能否{remedy}，现有的内容已经足够，不再需要其他文档。",
        ),
    ),
    "navigation": Forms(
        choice=("下一步应该打开哪个链接？", "在哪里能找到{thing}的{topic}？"),
        options=("{page}",),
        score=(
            "对于这个问题，链接“{page}”有多大希望：{question}",
            "距离找到{thing}的{topic}还有多远？",
        ),
        levels=(("没有希望", "有些希望", "很有希望"), ("很远", "接近", "已经找到")),
        noul=(
            "下一步打开“{page}”，能让我们更接近下面这个问题的答案：{question}",
            "与其在这里继续读关于{thing}的内容，不如先返回“{page}”再作打算。",
        ),
    ),
    "verification": Forms(
        choice=("这一说法成立吗：{claim}", "这里怎么讲：{claim}"),
        options=("支持", "反驳", "部分支持", "没有提到", "已经过时", "无法判断"),
        score=(
            "这段内容在多大程度上支持下面的说法：{claim}",
            "我们对下面的说法有多大把握：{claim}",
        ),
        levels=(("完全不", "较弱", "很强"), ("没有", "有一些", "完全")),
        noul=(
            "从这里写的内容可以推出下面的说法，不需要再作别的假设：{claim}",
            "这里没有任何内容与下面的说法相矛盾，也没有对它提出疑问：{claim}",
        ),
    ),
}
