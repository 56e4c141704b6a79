"""`Passes`: warm equals cold to the token, for every pitfall of caches and batches."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from readoff.engine.prefix_cache import Ids
from readoff.engine.radix_cache import RadixCache
from tests import models

from .passes_rig import KINDS, Rig, cold, gap, ids, line

BOUND = 1e-5
LENGTHS = (1, 63, 64, 65, 127, 128, 527, 528, 529)
Kind = models.Architecture


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.mark.parametrize("length", LENGTHS)
def test_states_of_every_length_are_reused_whole(kind: Kind, length: int) -> None:
    """Pitfall 1: the second question computes its own tokens only, and equals a cold run."""
    rig = Rig(kind)
    state, first, second = ids(length), line(ids(length), leaf=ids(9, 1)), ids(7, 2)
    asked = line(state, leaf=second)
    assert rig.computed(first) == length + 9
    before = rig.passes.computed
    [found] = rig.ask(asked)
    assert rig.passes.computed - before == 7
    assert gap(found, cold(kind, asked)) <= BOUND
    counters = rig.kept.counters
    assert (counters.hits, counters.misses, counters.saved_tokens) == (1, 1, length)
    assert rig.kept.storage.tokens.used == length


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 63, 64, 65])
def test_a_suffix_of_any_length_remembers_the_prefix(kind: Kind, length: int) -> None:
    """Pitfall 2: the recurrent state was dropped for suffixes of more than one token."""
    rig = Rig(kind)
    rig.ask(line(ids(20)))
    asked = line(ids(20), leaf=ids(length, 5))
    before = rig.passes.computed
    [found] = rig.ask(asked)
    assert rig.passes.computed - before == length
    assert gap(found, cold(kind, asked)) <= BOUND
    assert gap(found, cold(kind, line(ids(20, 9), leaf=ids(length, 5)))) > 1e-3  # it matters


def test_a_row_is_the_same_alone_beside_a_longer_one_and_twice(kind: Kind) -> None:
    """Pitfall 3: padding leaked."""
    short, long = line(ids(5), leaf=ids(3, 1)), line(ids(200, 2), leaf=ids(90, 3))
    wanted = cold(kind, short)
    for lines in ([short], [short, short], [short, long], [long, short, short]):
        for found, asked in zip(Rig(kind).ask(*lines), lines, strict=True):
            assert gap(found, wanted if asked is short else cold(kind, long)) <= BOUND


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_packed_rows_do_not_bleed(kind: Kind, length: int) -> None:
    """Pitfall 4: a loud first question of 1..5 tokens, a neutral second."""
    neutral = line(ids(30), leaf=ids(6, 4))
    for seed in (5, 6):
        loud = line(ids(30), leaf=ids(length, seed))
        for rig in (Rig(kind), warmed(kind, line(ids(30)))):
            found = rig.ask(loud, neutral)
            assert gap(found[1], cold(kind, neutral)) <= BOUND
            assert gap(found[0], cold(kind, loud)) <= BOUND


def test_questions_are_apart(kind: Kind) -> None:
    """Pitfall 5: what question 1 says, or that it is there, doesn't move question 2."""
    second = line(ids(30), leaf=ids(6, 4))
    wanted = cold(kind, second)
    rig = Rig(kind)
    for lines in ([line(ids(30), leaf=ids(11, 7)), second], [second], [second, line(ids(30))]):
        assert gap(rig.ask(*lines)[lines.index(second)], wanted) <= BOUND


def test_prompts_that_diverge_inside_a_cached_state(kind: Kind) -> None:
    """Pitfall 6: three prompts share 40 tokens; a fourth diverges in the middle of one."""
    rig = Rig(kind)
    shared = ids(40)
    three = [line(shared + ids(30, seed), leaf=ids(5, seed)) for seed in (1, 2, 3)]
    assert rig.computed(*three) == 40 + 3 * 35
    fourth = [line(shared + ids(30, 2)[:17] + ids(13, n), leaf=ids(5, n)) for n in (8, 9)]
    before = rig.passes.computed
    [found] = rig.ask(fourth[0])
    # A hybrid has a snapshot after the 40 shared tokens, and none 17 tokens later.
    assert rig.passes.computed - before == 18 + 17 * (kind == "qwen3_5")
    assert gap(found, cold(kind, fourth[0])) <= BOUND
    before = rig.passes.computed
    [found] = rig.ask(fourth[1])
    assert rig.passes.computed - before == 18  # now there is one where the two part
    assert gap(found, cold(kind, fourth[1])) <= BOUND
    for asked, again in zip(three, rig.ask(*three), strict=True):
        assert gap(again, cold(kind, asked)) <= BOUND
    rig.check_clean()


def test_a_first_then_a_second_then_the_first_question(kind: Kind) -> None:
    """Pitfall 16: nothing cached is changed by those who use it."""
    rig = Rig(kind)
    one, two = line(ids(50), leaf=ids(8, 1)), line(ids(50), leaf=ids(70, 2))
    first, second, third = rig.ask(one), rig.ask(two), rig.ask(one)
    assert gap(first[0], third[0]) <= BOUND
    assert gap(second[0], cold(kind, two)) <= BOUND


class Colliding(tuple[int, ...]):
    """A key that only equality tells from others."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_a_constant_hash_changes_nothing(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pitfall 16: ids are compared on a hit."""
    plain = RadixCache._key

    def key(self: RadixCache, found: Ids) -> Hashable:
        kept = plain(self, found)
        assert isinstance(kept, tuple)
        return Colliding(kept)

    monkeypatch.setattr(RadixCache, "_key", key)
    rig = Rig(kind)
    asked = [line(ids(20 + n, n), leaf=ids(4, n)) for n in range(8)]
    for _ in range(2):
        for found, one in zip(rig.ask(*asked), asked, strict=True):
            assert gap(found, cold(kind, one)) <= BOUND
    assert rig.kept.counters.hits == 8


def test_pieces_that_begin_alike_are_told_apart(kind: Kind) -> None:
    """Equal in all but the last id of the piece, with equal keys in the tree."""
    rig = Rig(kind)
    for last in (1, 2, 3):
        asked = line((*ids(63), last), leaf=ids(4, 1))
        assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND


def test_the_identical_request_twice(kind: Kind) -> None:
    """Pitfall 17: a full hit still has its logits; and twice in one pass."""
    rig = Rig(kind)
    asked = line(ids(33), leaf=ids(6, 1))
    once = rig.ask(asked)
    assert rig.computed(asked) == 6
    assert gap(rig.ask(asked)[0], once[0]) <= BOUND
    job, same = rig.job(asked), rig.job(asked)
    found = rig.run(job, same)
    assert found[job] == found[same]
    assert (job.computed, same.computed) == (6, 0)


def test_near_ties_stand_in_any_company(kind: Kind) -> None:
    """Pitfall 19: alone, with 3 and 4 copies, and beside 31 strangers, cold and warm."""
    candidates = [line(ids(24), leaf=ids(6, seed)) for seed in range(40)]

    def distance(one: Any) -> float:
        best = sorted(cold(kind, one))[-2:]
        return best[1] - best[0]

    tie = min(candidates, key=distance)
    strangers = [line(ids(10 + n, 100 + n), leaf=ids(3 + n % 5, n)) for n in range(31)]
    wanted = cold(kind, tie)
    for rig in (Rig(kind), warmed(kind, line(ids(24)))):
        for company in ([], [tie] * 3, [tie] * 4, strangers):
            lines = [*company, tie]
            for found, one in zip(rig.ask(*lines), lines, strict=True):
                assert one is not tie or gap(found, wanted) <= BOUND
            jobs = [rig.job(one) for one in lines]
            assert gap(rig.run(*jobs)[jobs[-1]][0], wanted) <= BOUND


def test_a_growing_state_reuses_its_own_past(kind: Kind) -> None:
    rig = Rig(kind)
    parts = [ids(10 + n, n) for n in range(8)]
    for n in range(1, 9):
        asked = line(*parts[:n], leaf=ids(5, n))
        before = rig.passes.computed
        [found] = rig.ask(asked)
        assert rig.passes.computed - before == len(parts[n - 1]) + 5
        assert gap(found, cold(kind, asked)) <= BOUND


@pytest.mark.parametrize("other", [(ids(70),), (ids(25), ids(70)[25:50], ids(70)[50:])])
def test_pieces_may_be_divided_in_another_way(kind: Kind, other: tuple[Ids, ...]) -> None:
    """The same tokens as one piece and as several: shared, counted exactly, and right."""
    rig = Rig(kind)
    mine = (ids(70)[:40], ids(70)[40:])
    rig.ask(line(*mine))
    asked = line(*other, leaf=ids(3, 1))
    cost = rig.computed(asked)
    assert cost == rig.sizes[-1]
    assert gap(rig.ask(asked)[0], cold(kind, asked)) <= BOUND


def test_a_hybrid_cut_twice_in_one_pass_counts_what_it_computes() -> None:
    """Two prompts branch off one cached piece at different tokens: a segment is counted once."""
    rig = Rig("qwen3_5")
    rig.ask(line(ids(300)))
    for cuts in ((200, 120), (60, 250)):
        lines = [line(ids(300)[:cut] + ids(20, cut), leaf=ids(3, cut)) for cut in cuts]
        before = rig.passes.computed
        for found, asked in zip(rig.ask(*lines), lines, strict=True):
            assert gap(found, cold("qwen3_5", asked)) <= BOUND
        assert rig.passes.computed - before == rig.sizes[-1]


def warmed(kind: Kind, *lines: Any) -> Rig:
    rig = Rig(kind)
    rig.ask(*lines)
    return rig
