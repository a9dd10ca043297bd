"""The faults, one function each. A function says why its fault could not be injected; empty: it was."""

from __future__ import annotations

import resource
import shutil
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import psutil

from tests.chaos import logs
from tests.chaos.damage import damage
from tests.chaos.schedule import Fault

if TYPE_CHECKING:
    from tests.chaos.trial import Trial

ENDED = "the run had ended"
AWAY_S = (1.0, 4.0)  # a network or a broker
FROZEN_S = (0.5, 4.0)
SHORT_TIMEOUT = ("--kafka-config", "transaction.timeout.ms=2000")
CLOCKS_S = {"forward": 1_800, "back": -3_000, "far forward": 3 * 86_400}


def kill(trial: Trial, fault: Fault) -> str:
    """All processes, or one of them: then the others have to notice, and to end."""
    if fault.variant == "all":
        return _kill_all(trial, fault)
    assert fault.moment is not None
    life = trial.start(trial.world.first, hold=trial.hold(fault.moment))
    if not trial.reach(life, fault.moment):
        trial.ended(life)
        return ENDED
    if not life.signal(fault.variant, signal.SIGKILL):
        life.release()
        trial.ended(life)
        return f"there was no {fault.variant}"
    life.release()
    if fault.variant == "driver":
        life.finish()
        trial.check_gone(life.session)
    else:
        trial.ended(life)
    return ""


def _kill_all(trial: Trial, fault: Fault) -> str:
    assert fault.moment is not None
    life = trial.start(trial.world.first, hold=trial.hold(fault.moment))
    if not trial.reach(life, fault.moment):
        trial.ended(life)
        return ENDED
    life.machine.kill()
    life.finish()
    return ""


def broker(trial: Trial, fault: Fault) -> str:
    assert fault.moment is not None
    life = trial.start(trial.world.first, hold=trial.hold(fault.moment))
    if not trial.reach(life, fault.moment):
        trial.ended(life)
        return ENDED
    running = trial.world.broker
    running.kill() if fault.variant == "kill" else running.stop()
    life.release()  # so that the job meets a broker that is away
    time.sleep(_between(fault, (0.0, 2.0)))
    running.start()
    trial.ended(life)
    return ""


def zombie(trial: Trial, fault: Fault) -> str:
    """The first one is frozen and goes on after, or in the middle of, the run of a second one."""
    assert fault.moment is not None
    world = trial.world
    life = trial.start(world.first, hold=trial.hold(fault.moment))
    if not trial.reach(life, fault.moment):
        trial.ended(life)
        return ENDED
    life.signal("all", signal.SIGSTOP)
    life.release()
    successor = trial.start(world.second, hold="" if fault.variant == "after" else "begun")
    if fault.variant == "during":
        successor.held()
    else:
        done = successor.finish()
    life.signal("all", signal.SIGCONT)
    woken = life.finish()
    if fault.variant == "during":
        successor.release()
        done = successor.finish()
    if woken.code != 4:
        trial.problem(f"a zombie ended with code {woken.code}: {woken.err[-1500:]}")
    if done.code != 0:
        trial.problem(f"the successor of a zombie ended with code {done.code}: {done.err[-1500:]}")
    trial.over = done.code == 0
    return ""


def freeze(trial: Trial, fault: Fault) -> str:
    """All processes or some of them, in an open transaction, without a successor."""
    assert fault.moment is not None
    more = SHORT_TIMEOUT if fault.variant == "past the timeout" else ()
    variant = "all" if fault.variant == "past the timeout" else fault.variant
    life = trial.start(trial.world.first, *more, hold=trial.hold(fault.moment))
    if not trial.reach(life, fault.moment):
        trial.ended(life)
        return ENDED
    there = life.signal(variant, signal.SIGSTOP)
    life.release()
    time.sleep(5.0 if more else _between(fault, FROZEN_S))
    life.signal(variant, signal.SIGCONT)
    done = trial.ended(life)
    if not more and done.code != 0:
        trial.problem(f"a frozen run did not go on: code {done.code}")
    return "" if there else f"there was no {variant}"


def duplicate(trial: Trial, fault: Fault) -> str:
    """`new`: on a checkpoint that does not exist yet."""
    world = trial.world
    if fault.variant == "old":
        trial.run_part(0.5)
    trial.send()
    lives = [trial.start(world.first)]
    time.sleep(fault.chance % 300 / 1000)
    lives.append(trial.start(world.second))
    done = [life.finish() for life in lives]
    codes = sorted(d.code for d in done)
    trial.result.ends += [f"code {d.code}: {d.err.strip()[-300:]}" for d in done if d.code]
    trial.over = 0 in codes
    if codes != [0, 4]:
        trial.problem(f"two starts ended with codes {codes}, expected 0 and 4")
    return ""


def disk(trial: Trial, fault: Fault) -> str:
    """It is full for the rest of the run, and then no more."""
    assert fault.moment is not None
    try:
        small = trial.small_disk()
    except PermissionError as e:
        return f"no small disk here: {e}"
    local: tuple[str, ...] = ()
    if fault.variant == "local":
        local = ("--spark-config", f"spark.local.dir={small.folder}")
    else:  # where it stays: Spark's state has its own path in it
        trial.folder_of_checkpoint = small.folder / "checkpoint"
    life = trial.start(trial.world.first, *local, hold=trial.hold(fault.moment))
    reached = trial.reach(life, fault.moment)
    if reached:
        small.fill(fault.chance % 6 * 4096)
    life.release()
    done = trial.ended(life)
    small.free()
    if not reached:
        return ENDED
    return "what was left was enough" if done.code == 0 else ""


def clock(trial: Trial, fault: Fault) -> str:
    assert fault.moment is not None
    machine = trial.world.machine_with_a_clock()
    if machine is None:
        return "libfaketime is not installed"
    life = trial.start(machine, hold=trial.hold(fault.moment))
    reached = trial.reach(life, fault.moment)
    trial.world.clock.turn(CLOCKS_S[fault.variant] if reached else 0)
    life.release()
    trial.ended(life)
    trial.world.clock.turn(0)
    return "" if reached else ENDED


def memory(trial: Trial, fault: Fault) -> str:
    """From now on these processes get hardly any more memory."""
    assert fault.moment is not None
    life = trial.start(trial.world.first, hold=trial.hold(fault.moment))
    if not trial.reach(life, fault.moment):
        trial.ended(life)
        return ENDED
    limited = 0
    for process in life.processes(fault.variant):
        try:
            limit = process.memory_info().vms + (fault.chance % 4 << 20)
            process.rlimit(resource.RLIMIT_AS, (limit, limit))
            limited += 1
        except psutil.Error:
            continue
    life.release()
    trial.ended(life)
    life.machine.kill()  # the limits stay with its processes
    return "" if limited else f"there was no {fault.variant}"


def network(trial: Trial, fault: Fault) -> str:
    assert fault.moment is not None
    proxy = trial.world.proxy
    trial.servers = proxy.address
    life = trial.start(trial.world.first, hold=trial.hold(fault.moment))
    try:
        if not trial.reach(life, fault.moment):
            trial.ended(life)
            return ENDED
        if fault.variant == "slow":
            proxy.delay_s = _between(fault, (0.02, 0.2))
        elif fault.variant == "thin":
            proxy.bytes_s = _between(fault, (20_000, 200_000))
        elif fault.variant == "cut":
            proxy.cut()
        else:
            proxy.open.clear()
        life.release()
        if fault.variant in ("cut", "silent"):
            time.sleep(_between(fault, AWAY_S))
            proxy.heal()
        trial.ended(life)
        return ""
    finally:
        proxy.heal()
        trial.servers = trial.world.servers


def damaged(trial: Trial, fault: Fault) -> str:
    """Either it goes on and everything is right, or it is refused with one line that says what to do: restore the
    checkpoint from a copy. If it met the damage only after some batches, the copy is too old for that. Then all output
    is written again."""
    trial.run_part(0.6)
    trial.send()
    folder = trial.folder_of_checkpoint
    copy = trial.folder / "copy"
    shutil.copytree(folder, copy)
    file = damage(folder, fault.variant, fault.how, fault.chance)
    if file is None:
        return f"there was no {fault.variant}"
    done = trial.ended(trial.start(trial.world.first))
    if done.code == 0:
        return ""
    if "Do: " not in done.err:
        trial.problem(f"{file.name} {fault.how}: the error does not say what to do")
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)
    if trial.ended(trial.start(trial.world.first)).code == logs.CHECKPOINT:
        logs.begin_anew(trial)
    return ""


def _between(fault: Fault, range_: tuple[float, float]) -> float:
    least, most = range_
    return least + (most - least) * (fault.chance % 1000 / 1000)


INJECT: dict[str, Callable[[Trial, Fault], str]] = {
    "failpoint": kill,
    "kill": kill,
    "broker": broker,
    "zombie": zombie,
    "freeze": freeze,
    "duplicate": duplicate,
    "disk": disk,
    "clock": clock,
    "memory": memory,
    "network": network,
    "damage": damaged,
    "partitions": logs.partitions,
    "topics": logs.topics,
    "retention": logs.retention,
}
