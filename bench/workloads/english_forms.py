"""How English questions of the six families are put."""

from __future__ import annotations

from collections.abc import Mapping

from readoff.bench.workloads.lexicon import Family, Forms

_QUERIES = ("{short}",)

FORMS: Mapping[Family, Forms] = {
    "routing": Forms(
        choice=(
            "Which team should take this over?",
            "Who should answer the question about the {thing}?",
            "Where does a case go in which the {thing} {event}?",
        ),
        options=("{team}",),
        score=(
            "How urgent is it that somebody looks at the {thing}?",
            "How much experience does the person need who deals with the {topic}?",
        ),
        levels=(("Not at all", "A little", "Much", "Very much"), ("Low", "Medium", "High")),
        noul=(
            "A specialist from {team} has to look at this before anybody says that the {thing} "
            "will be {remedy}.",
            "This should go straight to {team}, since it is mainly about the {topic} and not about "
            "the {thing} itself.",
        ),
    ),
    "rewriting": Forms(
        choice=(
            "Which query says best what is being asked?",
            "Which search terms would find the answer fastest?",
        ),
        options=_QUERIES,
        score=(
            'How well does the query "{short}" keep what is meant here?',
            'How much is lost if this is shortened to "{short}"?',
        ),
        levels=(("Badly", "Partly", "Fully"), ("Nothing", "A part", "Everything")),
        noul=(
            "What is said about the {thing} can be understood without knowing anything that was "
            "said before about the {topic}.",
            'The question "{question}" is a faithful rewriting of what is being asked here.',
        ),
    ),
    "relevance": Forms(
        choice=(
            "Which of these queries does this fit best?",
            "For which search would this be a good result?",
        ),
        options=_QUERIES,
        score=(
            "How well does this match the query: {question}",
            "How useful is this to somebody who asks: {question}",
        ),
        levels=(("Off topic", "Same topic", "Answers it"), ("Useless", "Useful", "Essential")),
        noul=(
            "Somebody who wants to know the following should read this: {question}",
            "This bears directly on the question: {question}",
        ),
    ),
    "sufficiency": Forms(
        choice=(
            "What is still missing to answer this: {question}",
            "What has to be looked up before we can say: {claim}",
        ),
        options=("nothing", "a date", "an amount", "a name", "the rule", "a proof"),
        score=(
            "How much of this question can be answered from what is given: {question}",
            "How complete is what we know about the {topic} of the {thing}?",
        ),
        levels=(("Nothing", "Half", "All"), ("None", "Some", "Most", "All")),
        noul=(
            "What is given is enough to answer this without another search: {question}",
            "No further document is needed to decide whether the {thing} can be {remedy}.",
        ),
    ),
    "navigation": Forms(
        choice=(
            "Which link should be opened next?",
            "Where would the {topic} of a {thing} be found?",
        ),
        options=("{page}",),
        score=(
            'How promising is the link "{page}" for this: {question}',
            "How close are we to finding the {topic} of the {thing}?",
        ),
        levels=(("Not at all", "Somewhat", "Very"), ("Far", "Near", "There")),
        noul=(
            'Opening "{page}" next brings us closer to an answer to this: {question}',
            'It would be better to go back to "{page}" than to read on here about the {thing}.',
        ),
    ),
    "verification": Forms(
        choice=(
            "What does this say about the claim: {claim}",
            "How does the claim hold up: {claim}",
        ),
        options=("supported", "contradicted", "partly", "not stated", "outdated", "unclear"),
        score=(
            "How strongly does this support the claim: {claim}",
            "How sure can we be of this: {claim}",
        ),
        levels=(("Not at all", "Weakly", "Strongly"), ("Not", "Rather", "Fully")),
        noul=(
            "The following follows from what is written here: {claim}",
            "Nothing in this speaks against the claim: {claim}",
        ),
    ),
}
