"""The demonstration: three states as they come up in practice, four questions about each.

Together the questions cover the six families of decisions that agents and search systems make
all the time: routing, rewriting, relevance, sufficiency, navigation, verification.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from readoff.engine.questions import Choice, Noul, Question, Score

FAMILIES = ("routing", "rewriting", "relevance", "sufficiency", "navigation", "verification")


@dataclass(frozen=True)
class Case:
    """One state and its questions; `families` maps each question id to its family."""

    title: str
    state: Any
    questions: Mapping[str, Question]
    families: Mapping[str, str]


SUPPORT = Case(
    title="a support conversation",
    state={
        "customer": {"name": "Mara Lindt", "plan": "Team", "customer_since": 2021},
        "conversation": [
            {
                "from": "customer",
                "text": "We were charged twice for November: invoices 8841 and 8847 both "
                "show 240 EUR for the same five seats.",
            },
            {
                "from": "assistant",
                "text": "Sorry about that. Which card was charged the second time?",
            },
            {
                "from": "customer",
                "text": "The one ending in 4402. When do we get it back? This is the third "
                "time I am asking and nobody gives me a date.",
            },
        ],
    },
    questions={
        "team": Choice(
            instructions="Which team should take over this conversation?",
            criteria={
                "billing": "Invoices, charges, refunds",
                "technical": "Errors, outages, how to use the product",
                "sales": "New contracts, upgrades, quotes",
                "security": "Stolen accounts, leaked data",
            },
        ),
        "anger": Score(
            instructions="How angry is the customer in the last message?",
            criteria=["Calm", "Frustrated", "Very angry"],
        ),
        "help_query": Choice(
            instructions="Which search query for the help centre says best what the customer "
            "wants to know now?",
            criteria={
                "when is a duplicate charge refunded": None,
                "how to add seats to a team plan": None,
                "change the card of an account": None,
            },
        ),
        "standalone": Noul(
            instructions="The customer's last message can be understood without the messages "
            "before it.",
        ),
    },
    families={
        "team": "routing",
        "anger": "routing",
        "help_query": "rewriting",
        "standalone": "rewriting",
    },
)

SEARCH = Case(
    title="a query with two search results",
    state={
        "query": "Am I allowed to take a 20,000 mAh power bank on a flight in my hand luggage?",
        "results": [
            {
                "id": 1,
                "title": "Batteries on board",
                "text": "Spare lithium batteries and power banks must travel in the cabin, never "
                "in checked luggage. Up to 100 Wh no approval is needed. A power bank of "
                "20,000 mAh at 3.7 V has 74 Wh.",
            },
            {
                "id": 2,
                "title": "Lounge access",
                "text": "Passengers of the business class may use the lounge with one guest. "
                "Charging points and showers are free of charge.",
            },
        ],
    },
    questions={
        "result_1": Score(
            instructions="How well does result 1 match the query?",
            criteria=["Off topic", "Same topic, no answer", "Answers the query"],
        ),
        "result_2": Score(
            instructions="How well does result 2 match the query?",
            criteria=["Off topic", "Same topic, no answer", "Answers the query"],
        ),
        "enough": Noul(
            instructions="The results contain everything that is needed to answer the query.",
        ),
        "claim": Choice(
            instructions="What do the results say about this claim: a power bank may be put into "
            "checked luggage?",
            criteria={
                "supported": "The results say so",
                "contradicted": "The results say the opposite",
                "not mentioned": "The results say nothing about it",
            },
        ),
    },
    families={
        "result_1": "relevance",
        "result_2": "relevance",
        "enough": "sufficiency",
        "claim": "verification",
    },
)

BROWSING = Case(
    title="a browsing agent, two pages in",
    state=[
        {"goal": "Find out when the main library of Ghent opens on Sundays."},
        {
            "page": "stad.gent: the city's home page",
            "links": ["Living", "Culture and libraries", "Taxes", "Jobs at the city"],
            "clicked": "Culture and libraries",
        },
        {
            "page": "Culture and libraries",
            "text": "The main library De Krook is at Miriam Makebaplein 1. It lends books, "
            "music and games.",
            "links": ["Catalogue", "Opening hours", "Become a member", "Concerts"],
        },
    ],
    questions={
        "next_link": Choice(
            instructions="Which link of the current page should be clicked next to reach the goal?",
            criteria={
                "Catalogue": None,
                "Opening hours": None,
                "Become a member": None,
                "Concerts": None,
            },
        ),
        "move": Choice(
            instructions="What should the agent do next?",
            criteria={
                "click": "Follow a link of the current page",
                "back": "Return to the page before: this path leads nowhere",
                "stop": "Stop: the goal has been reached",
            },
        ),
        "known": Noul(
            instructions="The opening hours on Sundays are stated on the pages seen so far.",
        ),
        "right_place": Noul(
            instructions="The library on the current page is the one that the goal asks about.",
        ),
    },
    families={
        "next_link": "navigation",
        "move": "navigation",
        "known": "sufficiency",
        "right_place": "verification",
    },
)

CASES = (SUPPORT, SEARCH, BROWSING)
