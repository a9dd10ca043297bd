"""What must hold after a story of workers that take over from each other."""

from __future__ import annotations

from moneystate.deliver.history import Attempt, Redeliver, Redelivered
from moneystate.deliver.outcomes import Outcome
from tests.deliver.simulation import Story


def check(story: Story) -> None:
    """Raises AssertionError if a promise does not hold."""
    check_outcomes(story)
    check_bodies(story)
    check_redeliveries(story)
    queues = story.worker.endpoints.values()
    assert [(queue.endpoint_id, queue.count, queue.bytes) for queue in queues if queue.count or queue.bytes] == []
    for one in story.sent:
        endpoint = story.endpoints[story.subscriptions[one.subscription_id].endpoint_id]
        assert one.in_flight <= endpoint.max_in_flight


def check_outcomes(story: Story) -> None:
    """Each run of a delivery has one outcome, and a delivered one has come to its receiver with 2xx."""
    outcomes = story.ended()
    again = [one for one in story.topics.log if isinstance(one, Redelivered)]
    runs = {(delivery_id, one.run) for one in again for delivery_id in story.members(one.webhook_id)}
    assert outcomes.keys() == {(one.delivery_id, 1) for one in story.deliveries} | runs
    assert all(len(its) == 1 for its in outcomes.values()), [one for one in outcomes.items() if len(one[1]) > 1][:3]
    accepted = {member for one in story.sent if one.status and 200 <= one.status <= 299 for member in one.members}
    assert {delivery_id for (delivery_id, _), its in outcomes.items() if its == [Outcome.DELIVERED]} <= accepted
    left = {(one.delivery.delivery_id, one.run, one.outcome) for one in story.topics.undelivered}
    assert left == {
        (name, run, its[0]) for (name, run), its in outcomes.items() if its[0] in (Outcome.DEAD, Outcome.OVERFLOW)
    }
    assert len(story.topics.undelivered) == len(left)
    subscriptions = {one.delivery_id: one.subscription_id for one in story.deliveries}
    cancelled = {name for (name, _), its in outcomes.items() if its == [Outcome.CANCELLED]}
    assert all(story.is_deleted(subscriptions[name]) for name in cancelled)


def check_bodies(story: Story) -> None:
    """A webhook-id always has the same body and members, in all its runs."""
    bodies: dict[str, tuple[bytes, tuple[str, ...]]] = {}
    for one in story.sent:
        assert bodies.setdefault(one.webhook_id, (one.body, one.members)) == (one.body, one.members)
    attempts = {one.webhook_id for one in story.topics.log if isinstance(one, Attempt)}
    assert attempts <= bodies.keys()


def check_redeliveries(story: Story) -> None:
    """A command has sent a message again once at most, whatever crashed, and the last one has sent all it names."""
    again = [one for one in story.topics.log if isinstance(one, Redelivered)]
    assert len({(one.webhook_id, one.command_id) for one in again}) == len(again)
    known = {command.command_id: command for command in story.commands}
    assert all(known[one.command_id].endpoint_id == one.endpoint_id for one in again)
    last = story.commands[-1]
    assert isinstance(last, Redeliver)
    sent = {name for one in again if one.command_id == last.command_id for name in story.members(one.webhook_id)}
    of_endpoint = {one.delivery_id for one in story.deliveries if one.endpoint_id == last.endpoint_id}
    assert last.ids is None or of_endpoint & set(last.ids) <= sent
