from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nsysroof.report.placing import Dot, inside, overlap, place_labels

FRAME = (0.0, 0.0, 1_000.0, 600.0)
LINE = 14.0
DOTS = st.lists(
    st.builds(
        Dot,
        x=st.floats(20, 980),
        y=st.floats(20, 580),
        radius=st.floats(2, 24),
    ),
    min_size=1,
    max_size=12,
)


@given(dots=DOTS, width=st.floats(10, 200))
def test_labels_cover_no_dot_and_no_label_and_stay_inside(dots: list[Dot], width: float) -> None:
    places = place_labels(dots, [width] * len(dots), frame=FRAME, line=LINE)
    boxes = [
        (place.left, place.base - LINE + 3, place.left + width, place.base + 3)
        for place in places
        if place is not None
    ]
    for at, box in enumerate(boxes):
        assert inside(box, FRAME)
        assert not any(overlap(box, dot.box) for dot in dots)
        assert not any(overlap(box, other) for other in boxes[at + 1 :])


def test_the_first_label_stands_right_of_its_dot() -> None:
    (place,) = place_labels([Dot(x=100, y=100, radius=10)], [50.0], frame=FRAME, line=LINE)
    assert place is not None
    assert (place.left, place.base, place.leader) == (116, 104, None)


def test_a_label_that_had_to_move_away_is_tied_to_its_dot() -> None:
    crowd = [Dot(x=100, y=100, radius=10), Dot(x=100, y=101, radius=12)]
    first, second = place_labels(crowd, [50.0, 50.0], frame=FRAME, line=LINE)
    assert first is not None
    assert second is not None
    assert second.leader is not None or second.left < 100


def test_where_there_is_no_room_there_is_no_label() -> None:
    found = place_labels([Dot(x=5, y=5, radius=4)], [500.0], frame=(0, 0, 100, 100), line=LINE)
    assert found == [None]


def test_what_is_taken_is_left_alone() -> None:
    dot = Dot(x=100, y=100, radius=10)
    (place,) = place_labels([dot], [50.0], frame=FRAME, line=LINE, taken=[(110, 80, 200, 120)])
    assert place is not None
    assert place.left + 50 < 100  # on the other side
