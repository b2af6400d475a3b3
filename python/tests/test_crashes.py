"""Lost answers, killed clients, killed gateways: each transaction is there completely or not at all, and none twice."""

import os
import random
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import timedelta
from unittest import mock

import pytest
from conftest import Relay, rows

import nsgate
from nsgate._http import NoAnswer, NotSent
from nsgate._identity import Identity, Sight

# -- lost answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "faults",
    [
        ["before"],
        ["after"],
        ["page"],
        ["page after"],
        ["code after"],
        ["undecided after"],
        ["after", "before", "page after", "undecided after"],
    ],
)
def test_a_lost_answer_is_asked_for_again(world, relay, gateway, tables, faults):
    relay.lose = list(faults)
    through = nsgate.connect(relay.address, token=world.token)
    with through.transaction() as tx:
        tx.table(*tables[0]).insert(rows(300, 1))
        tx.table(*tables[1]).insert(rows(300, 1))
    assert gateway.versions(*tables) == [2, 2]
    assert len(relay.batches) == len(faults) + 1
    assert len(set(relay.batches)) == 1, "one key"
    assert tx.result.transaction_id


def test_processes_that_were_forked_get_their_own_answers(gateway, tables):
    gateway.versions(*tables)
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(rows(300, 1))

    def asks(count):
        return all(len(gateway.versions(*tables[:count])) == count for _ in range(30))

    def is_right(number):
        with pytest.raises(nsgate.Finished):
            tx.table(*tables[0])
        with pytest.raises(ZeroDivisionError), tx:
            raise ZeroDivisionError
        return asks(number % 2 + 1)

    children = []
    for number in range(4):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                code = 0 if is_right(number) else 2
            finally:
                os._exit(code)
        children.append(child)
    assert asks(2)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    tx.commit()
    assert gateway.versions(*tables) == [2, 1], "its children have not rolled it back"


def unknown(world, relay, tables, fault):
    """A transaction over both tables whose commit got no answer, and its error."""
    relay.lose = [fault] * 100
    tx = nsgate.connect(relay.address, token=world.token).transaction(timeout=1)
    for table in tables:
        tx.table(*table).insert(rows(300, 1))
    with pytest.raises(nsgate.Unknown) as raised:
        tx.commit()
    return tx, raised.value


def test_what_was_committed_without_an_answer_is_learned(world, relay, gateway, tables):
    tx, error = unknown(world, relay, tables, "after")
    assert gateway.versions(*tables) == [2, 2]
    with pytest.raises(nsgate.Unknown):
        error.wait(timeout=0.2)
    relay.lose = []
    assert error.wait().transaction_id
    assert tx.wait() == error.wait()
    assert gateway.versions(*tables) == [2, 2]
    assert len(set(relay.batches)) == 1, "one key"


def test_to_ask_for_what_was_lost_on_its_way_does_not_commit_it(world, relay, gateway, tables):
    tx, error = unknown(world, relay, tables, "before")
    relay.lose = []
    sent = len(relay.batches)
    for ask in (error.wait, tx.wait):
        with pytest.raises(nsgate.Unknown, match="has not been carried out so far"):
            ask(timeout=0.5)
    assert gateway.versions(*tables) == [1, 1]
    assert len(relay.batches) == sent
    # From now on it cannot be carried out any more.
    gateway.table(*tables[1]).insert(rows(400, 1))
    for _ in range(2):
        with pytest.raises(nsgate.Conflict):
            error.wait(timeout=10)
    with pytest.raises(nsgate.Conflict):
        tx.wait(timeout=10)
    assert gateway.versions(*tables) == [1, 2]


def test_a_router_that_does_not_know_the_gateway_says_nothing_of_a_commit(world, relay, gateway, tables):
    _, error = unknown(world, relay, tables, "before")
    relay.lose = []
    relay.has_no_route = "/snapshot"
    with pytest.raises(nsgate.Unknown, match="is this the gateway"):
        error.wait(timeout=1)
    assert gateway.versions(*tables) == [1, 1], "to ask commits nothing"


def test_a_copy_of_a_commit_that_arrives_late_is_the_same_commit(world, relay, gateway, tables):
    """A proxy has sent it twice; the answer to the first was that a table is locked."""
    relay.lose = ["late"]
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert relay.lose == [] and len(set(relay.batches)) == 1, "one key"
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


def test_a_commit_that_was_undone_gets_another_key(world, relay, gateway, tables):
    """The gateway would answer with the old one for ever."""
    relay.lose = ["undone"]
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert len(set(relay.batches)) == 2
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


OPENED = {
    "pylance": lambda tx, table: tx.table(*table),
    "lancedb": lambda tx, table: tx.lancedb.open_table(table[-1], namespace_path=list(table[:-1])),
    "new": lambda tx, table: tx.create(*table[:-1], table[-1] + "_new", data=rows(0, 1)),
}


@pytest.mark.parametrize("opened", OPENED)
@pytest.mark.parametrize("moment", ["before it is opened", "before it is changed"])
def test_a_gateway_that_goes_away_is_unavailable_whatever_lance_makes_of_it(
    world, relay, gateway, tables, opened, moment
):
    through = nsgate.connect(relay.address, token=world.token)
    with pytest.raises(nsgate.Unavailable):
        with through.transaction(timeout=1) as tx:
            relay.is_down = moment == "before it is opened"
            table = OPENED[opened](tx, tables[0])
            relay.is_down = True
            if opened == "new":
                table.insert(rows(300, 1))
            elif opened == "lancedb":
                table.add(rows(300, 1))
            else:
                table.update({"value": "1.0"}, where="id = 3")
    assert gateway.versions(tables[0]) == [1]


class InternalError(Exception):
    """A class of this name is in every database driver."""


@pytest.mark.parametrize(
    "error",
    [
        InternalError("current transaction is aborted"),
        ValueError("order: Unavailable: article 5"),
        RuntimeError("Failed to execute request of the shop"),
        KeyError("Commit result for version"),
    ],
)
def test_an_error_of_the_program_stays_its_own(gateway, tables, error):
    ran = []

    def change(tx):
        ran.append(tx)
        tx.table(*tables[0]).insert(rows(300, 1))
        raise error

    with pytest.raises(type(error)) as raised:
        gateway.run(change)
    assert raised.value is error and len(ran) == 1


def test_to_ask_for_a_new_table_that_was_lost_on_its_way_does_not_create_it(world, relay, gateway, tables):
    relay.lose = ["before"] * 100
    tx = nsgate.connect(relay.address, token=world.token).transaction(timeout=0.5)
    name = tables[0][-1] + "lost"
    tx.create("prod", name, data=rows(0, 1))
    with pytest.raises(nsgate.Unknown):
        tx.commit()
    relay.lose = []
    with pytest.raises(nsgate.Unknown):
        tx.wait(timeout=0.3)
    with pytest.raises(nsgate.Refused):
        gateway.versions(("prod", name))
    gateway.run(lambda other: other.create("prod", name, data=rows(0, 2)))
    with pytest.raises(nsgate.Conflict):
        tx.wait(timeout=10)
    assert gateway.table("prod", name).count_rows() == 2


@pytest.mark.parametrize("status, outcome", [("Succeeded", "committed"), ("Failed", nsgate.Unavailable)])
def test_a_transaction_whose_id_is_known_is_asked_for_by_it(gateway, tables, status, outcome):
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    asked = []

    def post(path, body, **options):
        asked.append(path)
        if "describe" not in path:
            return 503, {"error": "not decided", "code": 17, "transaction_id": "one"}, {}
        return 200, {"status": "Running" if len(asked) < 6 else status}, {}

    gateway._http.post = post
    tx._timeout = 0.1
    with pytest.raises(nsgate.Unknown) as raised:
        tx.commit()
    sent = len(asked)
    if outcome == "committed":
        assert raised.value.wait(timeout=10).transaction_id == "one"
    else:
        with pytest.raises(outcome, match="nothing was committed"):
            raised.value.wait(timeout=10)
    assert set(asked[sent:]) == {"/v1/transaction/one/describe"}


def test_a_question_that_ends_with_the_time_does_not_say_that_nobody_answers(gateway, tables):
    tx = gateway.transaction(timeout=0.5)
    tx.table(*tables[0]).insert(rows(300, 1))
    answers = iter([(503, {"error": "not decided", "code": 17, "transaction_id": "one"}, {})])

    def post(path, body, **options):
        for answer in answers:
            return answer
        time.sleep(options["timeout"])
        raise NoAnswer("timed out")

    gateway._http.post = post
    with pytest.raises(nsgate.Unknown, match="transaction one is not decided yet") as raised:
        tx.commit()
    answers = iter([(200, {"status": "Running"}, {})])
    with pytest.raises(nsgate.Unknown, match="transaction one is not decided yet"):
        raised.value.wait(timeout=0.5)
    with pytest.raises(nsgate.Unknown, match="does not answer"):
        raised.value.wait(timeout=0.2)


def test_a_commit_that_the_log_may_have_forgotten_is_not_sent_again(gateway, tables):
    """The gateways would carry it out again, meet its own versions, and refuse it."""
    tx = gateway.transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    asked = []

    def post(path, body, **options):
        asked.append(path)
        return 503, {"error": "look at its tables", "code": 17, "undecided": True, "forgotten": True}, {}

    gateway._http.post = post
    with pytest.raises(nsgate.Unknown, match="look at its tables") as raised:
        tx.commit()
    sent = len(asked)
    for ask in (raised.value.wait, tx.wait):
        with pytest.raises(nsgate.Unknown, match="look at its tables"):
            ask(timeout=10)
    assert len(asked) == sent
    assert sum("batch" in path for path in asked) == 1


FORGOTTEN = {
    "pylance": lambda tx, table: tx.table(*table).insert(rows(300, 1)),
    "lancedb": lambda tx, table: tx.lancedb.open_table(table[-1], namespace_path=list(table[:-1])).add(rows(300, 1)),
    "twice": lambda tx, table: [tx.table(*table).insert(rows(first, 1)) for first in (300, 301)],
    "new": lambda tx, table: tx.create(*table[:-1], table[-1] + "new", data=rows(0, 1)),
    "new by lancedb": lambda tx, table: tx.lancedb.create_table(
        table[-1] + "new", data=rows(0, 1), namespace_path=list(table[:-1])
    ),
}


# Some storages give the published manifest another tag. Only the tag tells lancedb's versions.
@pytest.mark.parametrize(
    "change, other_tags", [*((name, False) for name in FORGOTTEN), ("pylance", True), ("twice", True), ("new", True)]
)
def test_a_commit_that_the_log_has_forgotten_is_found_in_the_catalogs(
    world, relay, gateway, tables, change, other_tags
):
    """A repeat meets its own versions then, and is refused: `run` must not make the change twice."""
    relay.other_tags = other_tags
    relay.lose = ["after", "forgotten"]
    through = nsgate.connect(relay.address, token=world.token)
    ran = []

    def both(tx):
        ran.append(tx)
        FORGOTTEN[change](tx, tables[0])
        tx.table(*tables[1]).insert(rows(300, 1))

    through.run(both)
    assert relay.lose == [] and len(ran) == 1
    assert len(relay.batches) == 2, "it was repeated, and no rebased one was sent"
    assert ran[0].wait() == ran[0].result
    assert gateway.versions(*tables) == [{"twice": 3}.get(change, 1 if "new" in change else 2), 2]
    assert gateway.table(*tables[1]).count_rows() == 301


def test_a_conflict_with_another_writer_is_one_also_after_a_lost_request(world, relay, gateway, tables):
    relay.lose = ["before", "forgotten"]
    tx = nsgate.connect(relay.address, token=world.token).transaction(rebase=False)
    for table in tables:
        tx.table(*table).insert(rows(300, 1))
    gateway.table(*tables[0]).insert(rows(400, 1))
    with pytest.raises(nsgate.Conflict):
        tx.commit()
    assert relay.lose == []
    assert gateway.versions(*tables) == [2, 1]


def test_a_commit_of_which_only_a_part_is_there_is_neither_done_nor_refused(world, relay, gateway, tables):
    relay.lose = ["after"] + ["forgotten"] * 2
    tx = nsgate.connect(relay.address, token=world.token).transaction()
    for table in tables:
        tx.table(*table).insert(rows(300, 1))
    look = Identity.look
    there, absent = tables

    def torn(identity, gateway):
        return Sight.ABSENT if identity.table == absent else look(identity, gateway)

    with mock.patch.object(Identity, "look", torn):
        with pytest.raises(nsgate.Unknown, match="Look at these tables") as raised:
            tx.commit()
    expected = f"There: {'.'.join(there)} version 2. Not there: {'.'.join(absent)} version 2."
    assert expected in str(raised.value)
    assert raised.value.wait() == tx.wait() == nsgate.Committed(None, tuple(tx.wait().changes))


def test_a_commit_whose_versions_are_cleaned_up_is_not_refused(world, relay, gateway, tables):
    """A number that is absent below the latest one proves nothing."""
    _, error = unknown(world, relay, tables, "after")
    for table in tables:
        gateway.table(*table).insert(rows(400, 1))
        gateway.table(*table).cleanup_old_versions(older_than=timedelta(0))
    relay.lose = ["forgotten"]
    with pytest.raises(nsgate.Unknown, match="Gone, cleaned up or renamed for example: prod") as raised:
        error.wait(timeout=20)
    relay.lose = []
    assert raised.value.wait().transaction_id, "the gateway has not forgotten it"


def test_one_false_answer_that_nothing_is_there_makes_no_commit_anew(world, relay, gateway, tables):
    relay.lose = ["after", "forgotten"]
    relay.lies = True
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert relay.lied == len(tables)
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


def test_a_look_at_catalogs_that_hang_ends_with_the_commits_time(world, relay, gateway, tables):
    relay.lose = ["after"] + ["forgotten"] * 100
    tx = nsgate.connect(relay.address, token=world.token, timeout=600).transaction(timeout=2)
    tx.table(*tables[0]).insert(rows(300, 1))
    relay.hangs = "/version/describe"
    began = time.monotonic()
    with pytest.raises(nsgate.Unknown, match="do not answer in time"):
        tx.commit()
    assert time.monotonic() - began < 300, "it has waited for the end of the request"
    relay.hangs = None
    relay.lose = []
    assert tx.wait().transaction_id


def test_a_look_at_catalogs_that_are_busy_goes_on(world, relay, gateway, tables):
    relay.lose = ["after", "forgotten"]
    relay.busy = 5
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert relay.busy == 0 and len(relay.batches) == 2
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


def test_a_version_whose_record_pylance_cannot_read_is_anothers(gateway, tables):
    """So is the compaction of a table whose index has changed, with pylance 14."""
    table = gateway.table(*tables[0])
    table.create_scalar_index("id", "BTREE")
    table.delete("id = 299")
    table.optimize.compact_files(materialize_deletions_threshold=0.0)
    [version] = gateway.versions(tables[0])
    with pytest.raises(TypeError):
        gateway.table(*tables[0]).read_transaction(version)
    asked = {"id": list(tables[0]), "version": version}
    size = gateway.namespace_client.describe_table_version(asked)["version"]["manifest_size"]
    ours = Identity(tables[0], None, version, e_tag="ours", size=size, record="ours")
    assert ours.look(gateway) is Sight.OTHER


def test_a_lock_before_a_commit_that_is_forgotten_makes_it_no_conflict(world, relay, gateway, tables):
    relay.lose = ["before", "locked", "after", "forgotten"]
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert relay.lose == [] and len(relay.batches) == 4
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


def test_where_the_catalogs_cannot_be_asked_a_conflict_is_no_end(world, relay, gateway, tables):
    relay.lose = ["after"] + ["forgotten"] * 100
    through = nsgate.connect(relay.address, token=world.token)
    tx = through.transaction(timeout=1)
    tx.table(*tables[0]).insert(rows(300, 1))
    relay.is_down = True
    with pytest.raises(nsgate.Unknown, match="whether its versions are there cannot be asked for") as raised:
        tx.commit()
    relay.is_down = False
    relay.lose = ["forgotten"]
    assert raised.value.wait().changes[0].version == 2
    assert gateway.versions(tables[0]) == [2]


def test_a_commit_that_a_restart_has_undone_needs_no_look_at_the_catalogs(world, relay, gateway, tables):
    """A catalog that is away must not keep it from beginning again."""
    through = nsgate.connect(relay.address, token=world.token)
    tx = through.transaction(rebase=False)
    tx.table(*tables[0]).insert(rows(300, 1))
    relay.lose = ["before", "undone"]
    relay.is_down = True
    with pytest.raises(nsgate.Conflict, match="it was undone"):
        tx.commit()
    assert gateway.versions(tables[0]) == [1]


def test_a_commit_that_an_operator_has_ended_as_it_was_is_looked_for(world, relay, gateway, tables):
    relay.lose = ["after", "ended as it was"]
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert len(relay.batches) == 2
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]


def test_a_repetition_of_a_commit_that_was_undone_begins_again(gateway, tables):
    """The answer of the first time was lost, and a catalog has used up what was staged: it is staged again."""
    post, keys = gateway._http.post, []

    def posted(path, body, **options):
        if "batch" not in path:
            return post(path, body, **options)
        keys.append(options["headers"]["Idempotency-Key"])
        if len(keys) == 1:
            raise NoAnswer("reset")
        if len(keys) == 2:
            return 400, {"error": "Staging manifest not found", "code": 13, "entry": 0, "decided": True}, {}
        return post(path, body, **options)

    gateway._http.post = posted
    gateway.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert keys[0] == keys[1] != keys[2]
    assert gateway.versions(*tables) == [2, 2]
    tx = gateway.transaction(rebase=False)
    tx.table(*tables[0]).insert(rows(301, 1))
    keys.clear()
    with pytest.raises(nsgate.Unavailable, match="was undone, and its repetition was refused"):
        tx.commit()
    assert len(keys) == 2
    assert gateway.versions(*tables) == [2, 2]


def test_a_commit_that_was_refused_is_not_sent_by_asking_for_it(world, relay, gateway, tables):
    relay.lose = [400]
    tx = nsgate.connect(relay.address, token=world.token).transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    for ask in (tx.commit, tx.wait):
        with pytest.raises(nsgate.Refused, match="refused with 400"):
            ask()
    assert len(relay.batches) == 1
    assert gateway.versions(tables[0]) == [1]


@pytest.mark.parametrize("refusal", [429, 503, 500, "locked"])
def test_a_refusal_to_repeat_says_nothing_of_a_commit_whose_answer_was_lost(world, relay, gateway, tables, refusal):
    relay.lose = ["after", refusal, refusal]
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]
    assert len(relay.batches) == 4 and len(set(relay.batches)) == 1, "one key"


@pytest.mark.parametrize("refusal", [400, 401, 403, 404, 406, 422])
def test_a_refusal_after_a_lost_answer_leaves_the_outcome_unknown(world, relay, gateway, tables, refusal):
    """A token has ended, or a mount is away, for example: the request before may have been carried out, or may come."""
    relay.lose = ["after", refusal]
    tx = nsgate.connect(relay.address, token=world.token).transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    with pytest.raises(nsgate.Unknown, match=f"refused with {refusal}") as raised:
        tx.commit()
    assert raised.value.wait().transaction_id
    assert tx.wait() == tx.wait()
    assert gateway.table(*tables[0]).count_rows() == 301


def test_a_token_that_cannot_be_had_again_leaves_the_outcome_unknown(world, relay, gateway, tables):
    def token():
        if relay.batches and relay.batches[-1]:
            raise RuntimeError("no more tokens")
        return world.token

    relay.lose = ["after"]
    tx = nsgate.connect(relay.address, token=token).transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    with pytest.raises(nsgate.Unknown, match="no more tokens"):
        tx.commit()
    assert gateway.table(*tables[0]).count_rows() == 301


def test_a_first_refusal_is_definite(world, relay, gateway, tables):
    relay.lose = [400]
    tx = nsgate.connect(relay.address, token=world.token).transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    with pytest.raises(nsgate.Refused, match="refused with 400"):
        tx.commit()
    assert gateway.versions(tables[0]) == [1]


def test_an_interrupted_commit_can_be_asked_for(gateway, tables, monkeypatch):
    tx = gateway.transaction()
    with pytest.raises(nsgate.Finished, match="no commit"):
        tx.wait()
    tx.table(*tables[0]).insert(rows(300, 1))
    post = gateway._http.post

    def interrupted(*arguments, **options):
        post(*arguments, **options)
        monkeypatch.setattr(gateway._http, "post", post)
        raise KeyboardInterrupt

    monkeypatch.setattr(gateway._http, "post", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tx.commit()
    assert tx.wait().transaction_id
    assert gateway.table(*tables[0]).count_rows() == 301


# -- a gateway out of reach ---------------------------------------------------------------------------------------


@pytest.fixture
def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@pytest.mark.parametrize("uri", ["http://127.0.0.1:{free}", "http://nowhere.invalid", "https://127.0.0.1:{plain}"])
def test_a_request_without_a_connection_was_not_sent(relay, free_port, monkeypatch, uri):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    nowhere = nsgate.connect(uri.format(free=free_port, plain=relay.server_port), timeout=5)
    with pytest.raises(NotSent):
        nowhere._http.post("/nsgate/v1/snapshot", b"{}")


def test_a_request_that_was_sent_is_not_said_not_to_be(relay):
    relay.is_down = True
    with pytest.raises(NoAnswer) as cut:
        nsgate.connect(relay.address)._http.post("/nsgate/v1/snapshot", b"{}")
    relay.is_down, relay.hangs = False, "/snapshot"
    with pytest.raises(NoAnswer) as slow:
        nsgate.connect(relay.address, timeout=0.3)._http.post("/nsgate/v1/snapshot", b"{}")
    assert not isinstance(cut.value, NotSent) and not isinstance(slow.value, NotSent)


def test_a_commit_that_was_never_sent_is_said_to_be_none_and_never_becomes_one(world, relay, gateway, tables):
    folder = gateway.table(*tables[0]).uri.replace("file://", "") + "/_versions"
    steps = []
    through = nsgate.connect(relay.address, token=world.token)
    tx = through.transaction(timeout=1.5, progress=lambda progress: steps.append(progress.step))
    tx.table(*tables[0]).insert(rows(300, 1))
    relay.shutdown()
    relay.server_close()
    with pytest.raises(nsgate.Unavailable, match="was not sent, and nothing was committed"):
        tx.commit()
    assert "waiting" in steps and "rebasing" not in steps, "nothing was used up"
    again = Relay(world.uri, relay.server_port)
    try:
        with pytest.raises(nsgate.Unavailable, match="was not sent, and nothing was committed"):
            tx.wait()
        assert again.batches == []
    finally:
        again.shutdown()
        again.server_close()
    assert gateway.versions(tables[0]) == [1]
    assert not [name for name in os.listdir(folder) if ".manifest-" in name], "rolled back"


def test_a_gateway_that_comes_back_gets_the_commit(world, relay, gateway, tables):
    tx = nsgate.connect(relay.address, token=world.token).transaction()
    tx.table(*tables[0]).insert(rows(300, 1))
    relay.shutdown()
    relay.server_close()
    back = []
    timer = threading.Timer(0.5, lambda: back.append(Relay(world.uri, relay.server_port)))
    timer.start()
    assert tx.commit().transaction_id
    back[0].shutdown()
    back[0].server_close()
    assert gateway.versions(tables[0]) == [2]


def test_what_was_sent_once_stays_unknown_where_the_gateway_is_gone_after(world, relay, gateway, tables, monkeypatch):
    through = nsgate.connect(relay.address, token=world.token)
    tx = through.transaction(timeout=0.5)
    tx.table(*tables[0]).insert(rows(300, 1))
    relay.lose = ["after"]
    post = through._http.post

    def gone(*arguments, **options):
        if relay.batches:
            raise NotSent("connection refused")
        return post(*arguments, **options)

    monkeypatch.setattr(through._http, "post", gone)
    with pytest.raises(nsgate.Unknown):
        tx.commit()
    monkeypatch.setattr(through._http, "post", post)
    assert tx.wait().transaction_id


def test_a_gateway_that_is_not_there(gateway, tables):
    nowhere = nsgate.connect("http://127.0.0.1:9", token="x", timeout=1)
    with pytest.raises(nsgate.Unavailable, match="does not answer"):
        nowhere.versions(tables[0])


def test_a_gateway_out_of_reach_while_a_table_is_staged_anew(world, relay, gateway, tables):
    tx = nsgate.connect(relay.address, token=world.token).transaction(timeout=2)
    tx.table(*tables[0]).insert(rows(300, 1))
    gateway.table(*tables[0]).insert(rows(500, 1))
    relay.is_down = True
    with pytest.raises(nsgate.Unavailable, match="does not answer"):
        tx.commit()
    assert gateway.table(*tables[0]).count_rows() == 301
    with pytest.raises(nsgate.Unavailable):
        nsgate.connect(relay.address, token=world.token).transaction().table(*tables[0])


def test_an_answer_that_drips_ends_with_the_time_of_the_request(tables):
    listener = socket.create_server(("127.0.0.1", 0))

    def drip():
        connection, _ = listener.accept()
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            try:
                connection.sendall(b" ")
            except OSError:
                return
            time.sleep(0.1)

    threading.Thread(target=drip, daemon=True).start()
    slow = nsgate.connect(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout=1)
    with pytest.raises(nsgate.Unavailable):
        slow.versions(tables[0])
    listener.close()


WAITING = {
    "table": ("/describe", lambda gateway, tx, table: tx.table(*table)),
    "versions": ("/version/list", lambda gateway, tx, table: tx.table(*table)),
    "lancedb": ("/describe", lambda gateway, tx, table: tx.lancedb.open_table(table[-1], namespace_path=["prod"])),
    "create": ("/declare", lambda gateway, tx, table: tx.create("prod", table[-1] + "c", data=rows(0, 1))),
    "lancedb create": (
        "/declare",
        lambda gateway, tx, table: tx.lancedb.create_table(table[-1] + "l", rows(0, 1), namespace_path=["prod"]),
    ),
    "plain table": ("/describe", lambda gateway, tx, table: gateway.table(*table)),
    "plain lancedb": (
        "/describe",
        lambda gateway, tx, table: gateway.lancedb.open_table(table[-1], namespace_path=["prod"]),
    ),
    "snapshot": ("/describe", lambda gateway, tx, table: gateway.snapshot(table)),
    "listing": ("/list", lambda gateway, tx, table: gateway.leftovers("prod", through=gateway)),
}


def ends_in_time(act, seconds=8.0):
    """What a call raises; it must end within some seconds."""
    raised = []

    def work():
        try:
            act()
            raised.append(None)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    assert raised, "it waits for ever"
    return raised[0]


@pytest.mark.parametrize("what", WAITING)
def test_a_request_without_an_answer_ends_with_the_time_of_the_request(world, relay, tables, what):
    through = nsgate.connect(relay.address, token=world.token, timeout=1)
    tx = through.transaction()
    relay.hangs, act = WAITING[what]
    error = ends_in_time(lambda: act(through, tx, tables[0]))
    assert "has no answer after 1 s" in str(error) or "does not answer" in str(error)
    if what in ("table", "versions", "lancedb"):
        assert isinstance(error, nsgate.Unavailable)
    relay.hangs = None
    tx.rollback()


@pytest.mark.parametrize("end", ["rollback", "commit"])
def test_the_end_of_a_transaction_does_not_wait_for_ever(world, relay, gateway, tables, end):
    through = nsgate.connect(relay.address, token=world.token, timeout=1)
    tx = through.transaction(timeout=2)
    if end == "rollback":
        tx.create("prod", tables[0][-1] + "r", data=rows(0, 1))
        relay.hangs = "/drop"
        assert ends_in_time(tx.rollback) is None
    else:
        tx.table(*tables[0]).insert(rows(300, 1))
        gateway.table(*tables[0]).insert(rows(400, 1))
        relay.hangs = "/version/list"
        assert isinstance(ends_in_time(tx.commit), nsgate.Unavailable)
        assert gateway.table(*tables[0]).count_rows() == 301


def test_a_program_ends_although_a_request_has_no_answer(world, relay, tables):
    relay.hangs = "/describe"
    program = """
        import sys, nsgate
        try:
            nsgate.connect(sys.argv[1], token=sys.argv[2], timeout=0.5).transaction().table("prod", sys.argv[3])
        except nsgate.Unavailable as error:
            print(error)
    """
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-c",
        textwrap.dedent(program),
        relay.address,
        world.token,
        tables[0][-1],
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "does not answer" in done.stdout


# -- killed clients and gateways ----------------------------------------------------------------------------------


CLIENT = """
    import os, sys, nsgate
    from nsgate.demo import world
    sys.path.insert(0, sys.argv[4])
    from conftest import rows
    gateway = nsgate.connect(sys.argv[1], token=sys.argv[2])
    tables = [name.split("/") for name in sys.argv[3].split(",")]
    tx = gateway.transaction()
    for table in tables:
        tx.table(*table).insert(rows(300, 1))
        print("staged", flush=True)
    tx.commit()
    print("committed", flush=True)
"""


@pytest.mark.parametrize("seed", range(8))
def test_a_client_that_dies(world, gateway, tables, seed):
    """Killed at any point of its transaction: all of it is there, or nothing."""
    chance = random.Random(seed)
    names = ",".join("/".join(table) for table in tables)
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(CLIENT), world.uri, world.token, names]
    client = subprocess.Popen([*command, os.path.dirname(__file__)], stdout=subprocess.PIPE, text=True)
    for _ in range(chance.choice([1, 2, 2, 2])):
        client.stdout.readline()
    time.sleep(chance.uniform(0, 0.03))
    client.kill()
    rest = client.stdout.read()
    client.wait()
    deadline = time.monotonic() + 20
    while True:
        versions = gateway.versions(*tables)
        assert versions in ([1, 1], [2, 2])
        if versions == [2, 2] or "committed" not in rest or time.monotonic() > deadline:
            break
    if "committed" in rest:
        assert versions == [2, 2]
    with gateway.transaction() as tx:
        tx.table(*tables[0]).insert(rows(400, 1))
        tx.table(*tables[1]).insert(rows(400, 1))
    assert gateway.table(*tables[0]).count_rows() == gateway.table(*tables[1]).count_rows()


def test_a_gateway_that_dies(world, gateway, tables):
    """Killed again and again while transactions run: each of them is there completely or not at all."""
    stop, outcomes, problems = threading.Event(), {}, []

    def writer(number):
        count = 0
        while not stop.is_set():
            mark = 10_000 * (number + 1) + count
            count += 1
            try:
                tx = gateway.transaction(timeout=60)
                for table in tables:
                    tx.table(*table).insert(rows(mark, 1))
                try:
                    tx.commit()
                except nsgate.Unknown as unknown:
                    unknown.wait(60)
                outcomes[mark] = True
            except nsgate.Refused:
                outcomes[mark] = False
            except nsgate.Unknown:
                outcomes[mark] = None
            except (OSError, RuntimeError, ValueError) as error:
                # A gateway that is not there while a table is opened or a change staged: nothing was sent.
                outcomes[mark] = False
                problems.append(str(error))
                tx.rollback()
                time.sleep(0.05)

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    chance = random.Random(7)
    for _ in range(6):
        time.sleep(chance.uniform(0.3, 1.0))
        world.kill_gateway()
        world.start_gateway()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join()
    seen = [{row["id"] for row in gateway.table(*table).to_table(columns=["id"]).to_pylist()} for table in tables]
    committed = [mark for mark, outcome in outcomes.items() if outcome]
    print(f"{len(outcomes)} transactions, {len(committed)} committed, {len(problems)} met a dead gateway while staging")
    assert len(committed) > 10
    for mark, outcome in outcomes.items():
        there = [mark in rows_of for rows_of in seen]
        assert there[0] == there[1], f"{mark} is torn: {there}"
        if outcome is not None:
            assert there[0] == outcome, f"{mark}: {outcome}, but {there}"
