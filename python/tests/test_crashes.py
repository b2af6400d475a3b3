"""Lost answers, killed clients, killed gateways: each transaction is there completely or not at all, and none twice."""

import os
import random
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from conftest import rows

import nsgate

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


@pytest.mark.parametrize("faults, version", [("before", 1), ("after", 2)])
def test_what_stays_unknown_is_said_and_can_be_waited_for(world, relay, gateway, tables, faults, version):
    relay.lose = [faults] * 100
    through = nsgate.connect(relay.address, token=world.token)
    tx = through.transaction(timeout=1)
    tx.table(*tables[0]).insert(rows(300, 1))
    tx.table(*tables[1]).insert(rows(300, 1))
    with pytest.raises(nsgate.Unknown) as raised:
        tx.commit()
    assert gateway.versions(*tables) == [version, version]
    with pytest.raises(nsgate.Unknown):
        raised.value.wait(timeout=0.2)
    relay.lose = []
    assert raised.value.wait().transaction_id
    assert gateway.versions(*tables) == [2, 2]
    assert len(set(relay.batches)) == 1


@pytest.mark.parametrize("refusal", [429, 503, 500])
def test_a_refusal_to_repeat_says_nothing_of_a_commit_whose_answer_was_lost(world, relay, gateway, tables, refusal):
    relay.lose = ["after", refusal, refusal]
    through = nsgate.connect(relay.address, token=world.token)
    through.run(lambda tx: [tx.table(*table).insert(rows(300, 1)) for table in tables])
    assert [gateway.table(*table).count_rows() for table in tables] == [301, 301]
    assert len(relay.batches) == 4 and len(set(relay.batches)) == 1, "one key"


@pytest.mark.parametrize("refusal", [401, 403])
def test_a_token_that_ends_while_an_answer_is_lost_leaves_the_outcome_unknown(world, relay, gateway, tables, refusal):
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
