"""Sends the corpus to one address.

usage: differential.py URI TOKEN ROOT NAME...

ROOT is the folder of the catalog's tables. NAME... is the catalog's mount at that
address (none: the root).
Prints a JSON list of answers: case, status, content type, body. The parts of a
body that differ from run to run are masked. The mount's names are removed from
the fields in which the contract returns identifiers. Nothing else is changed.
"""

import hashlib
import http.client
import json
import re
import sys
from urllib.parse import urlsplit

import pyarrow as pa

from corpus import at_the_door, story
from staging import connect, rows, stage

MASKS = [
    (r'"(timestamp_millis|manifest_size|manifestSize|created_at|createAt)":\d+', r'"\1":0'),
    (r'"e_tag":"(\\.|[^"\\])*"', r'"e_tag":""'),
    (r'\\"runtime_hints\\":\{[^}]*\}', r'\"runtime_hints\":{}'),
    (r"metrics=\[[^\]]*\]", "metrics=[]"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"ROOT/[0-9a-f]{8}_", "ROOT/HASH_"),
    (r"elapsed=[^,]*", "elapsed=TIME"),
    # The place of a mistake in a body moves if the gateway rewrites the body.
    (r"at line \d+ column \d+", "at line L column C"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*", "TIME"),
]


def masked(text, root):
    text = text.replace(f"file://{root}", "ROOT").replace(root, "ROOT").replace(root.lstrip("/"), "ROOT")
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text


def unmounted(text, below):
    """Removes the mount's names from the response's identifiers: `id`, `namespace` and `tables`."""
    if not below:
        return text
    names = ",".join(json.dumps(name) for name in below)
    text = re.sub(rf'"(id|namespace)":\[{re.escape(names)},?', r'"\1":[', text)
    path = re.escape("$".join(below) + "$")
    return re.sub(r'"tables":\[[^\]]*\]', lambda found: re.sub(f'"{path}', '"', found[0]), text)


def body_of(answer, root, below):
    data = answer.read()
    if data.startswith(b"ARROW1"):
        table = pa.ipc.open_file(data).read_all()
        return f"{len(data)} bytes of Arrow, {hashlib.sha256(data).hexdigest()}: {table.to_pylist()}"
    return unmounted(masked(data.decode(), root), below)


def main():
    uri, token, root, below = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
    headers = {"Authorization": f"Bearer {token}"}
    client = connect(uri, headers)

    def staged(id):
        return stage(client, below + id, rows(50, 2))

    answers = []
    for case in [*story(staged), *at_the_door()]:
        method, path, content_type, body = case.request(below)
        extra = {"Content-Type": content_type} if content_type else {}
        connection = http.client.HTTPConnection(urlsplit(uri).netloc, timeout=60)
        connection.request(method, path, body=body, headers={**headers, **extra})
        answer = connection.getresponse()
        text = body_of(answer, root, below)
        connection.close()
        answers.append(
            {
                "operation": case.operation,
                "case": case.name,
                "status": answer.status,
                "content_type": answer.headers.get("content-type", ""),
                "body": text,
            }
        )
    print(json.dumps(answers, indent=1))


main()
