"""Which exports share a clock: sessions planted on one machine, on two, before and after a boot."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import Trace, open_trace
from nsysroof.trace.clock import Alignment, Apart, ClockKind, align

UTC = 1_780_000_000_000_000_000
S = 1_000_000_000
SECRET = "gpu-box-17"


def session(
    folder: Path,
    *,
    began_s: float,
    booted_s: float = 0.0,
    uuid: str | None = None,
    host: str | None = None,
    schema: str = "3.25.0",
    normalised: bool = False,
    shift: int | None = None,
) -> Trace:
    """Return a session that began so many seconds after UTC, of a machine booted earlier."""
    export = ExportBuilder(schema).gpu(0, "NVIDIA H100", uuid=uuid)
    began, booted = round(began_s * S), round(booted_s * S)
    if schema == "3.25.0":
        export.session(S, utc_epoch_ns=UTC + began, system_clock_ns=began - booted)
    else:
        export.row("TARGET_INFO_SESSION_START_TIME", utcEpochNs=UTC + began)
        # As older versions write it: no clock of the machine.
        export.row("ANALYSIS_DETAILS", globalVid=0, duration=S, startTime=7, stopTime=S + 7)
    if host is not None:
        export.system_env("Hostname", host)
    if normalised:
        export.meta_export("EXPORT_PARAM_TIME_NORMALIZE", "true")
    if shift is not None:
        export.meta_export("EXPORT_PARAM_TIME_SHIFT", str(shift))
    name = f"{began_s}-{booted_s}-{uuid}-{host}-{normalised}-{shift}.sqlite"
    return open_trace(export.kernel("k", 10, 20).write(folder / name))


def aligned(first: Trace, second: Trace) -> Alignment:
    return align(first.clock, second.clock)


def test_two_sessions_that_see_one_gpu_share_its_machines_clock(tmp_path: Path) -> None:
    first = session(tmp_path, began_s=50, uuid="ab-1")
    second = session(tmp_path, began_s=53.25, uuid="AB-1")
    assert aligned(first, second) == Alignment(kind=ClockKind.SYSTEM, offset_ns=3_250_000_000)
    assert aligned(second, first) == Alignment(kind=ClockKind.SYSTEM, offset_ns=-3_250_000_000)


def test_a_corrected_calendar_clock_moves_nothing(tmp_path: Path) -> None:
    """NTP moved UTC by 0.2 s between the sessions; the clock since the boot is right."""
    first = session(tmp_path, began_s=50, host="a")
    second = session(tmp_path, began_s=60.2, booted_s=0.2, host="a")
    assert aligned(first, second).offset_ns == 10_000_000_000


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"uuid": "ab-1", "host": "a"}, {"uuid": "ab-2", "host": "b"}),  # though their clocks agree
        ({}, {}),
        ({"uuid": "00000000-0000"}, {"uuid": "00000000-0000"}),  # an id that is none
    ],
)
def test_sessions_that_may_be_of_two_machines_share_nothing(
    first: dict[str, str], second: dict[str, str], tmp_path: Path
) -> None:
    one = session(tmp_path, began_s=50, uuid=first.get("uuid"), host=first.get("host"))
    two = session(tmp_path, began_s=53, uuid=second.get("uuid"), host=second.get("host"))
    assert aligned(one, two) == Alignment(apart=Apart.MACHINE)


def test_a_boot_in_between_starts_another_clock(tmp_path: Path) -> None:
    first = session(tmp_path, began_s=50, uuid="ab-1")
    second = session(tmp_path, began_s=90, booted_s=60, uuid="ab-1")
    assert aligned(first, second) == Alignment(apart=Apart.BOOT)


def test_older_exports_have_the_calendar_clock_of_their_machine(tmp_path: Path) -> None:
    """Their start time counts from something else, and is not taken for a clock."""
    first = session(tmp_path, began_s=50, host="a", schema="3.11.1")
    second = session(tmp_path, began_s=52, host="a", schema="3.11.1")
    newer = session(tmp_path, began_s=55, host="a")
    assert first.clock.zero_system_ns is None
    assert aligned(first, second) == Alignment(kind=ClockKind.UTC, offset_ns=2 * S)
    assert aligned(first, newer) == Alignment(kind=ClockKind.UTC, offset_ns=5 * S)


def test_an_export_that_does_not_tell_when_it_began_has_no_clock(tmp_path: Path) -> None:
    first = session(tmp_path, began_s=50, host="a")
    bare = ExportBuilder().gpu(0, "NVIDIA H100").system_env("Hostname", "a").kernel("k", 10, 20)
    second = open_trace(bare.write(tmp_path / "bare.sqlite"))
    assert aligned(first, second) == Alignment(apart=Apart.UNTOLD)


def test_timestamps_that_the_export_moved_are_moved_back(tmp_path: Path) -> None:
    """Normalised times count from 1970, shifted ones from elsewhere: t=0 is then not the start."""
    plain = session(tmp_path, began_s=50, host="a")
    normalised = session(tmp_path, began_s=53, host="a", normalised=True)
    shifted = session(tmp_path, began_s=53, host="a", shift=-700)
    # An event 10 ns into the second session has the timestamp UTC + 53 s + 10, or -690.
    first = aligned(plain, normalised).offset_ns
    second = aligned(plain, shifted).offset_ns
    assert first is not None
    assert second is not None
    assert UTC + 53 * S + 10 + first == 3 * S + 10
    assert -690 + second == 3 * S + 10


def test_no_name_and_no_id_of_a_machine_is_shown(tmp_path: Path) -> None:
    clock = session(tmp_path, began_s=50, uuid=SECRET, host=SECRET).clock
    told = f"{clock!r} {clock.machine} {clock.host}"
    assert SECRET not in told
    assert len(clock.machine) == 1
    assert repr(clock) == f"Clock(zero_system_ns={50 * S}, zero_utc_ns={UTC + 50 * S})"
