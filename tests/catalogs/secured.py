"""A table's life through a gateway that requires client certificates.

usage: secured.py URI TOKEN AUTHORITY CERTIFICATE KEY

Writes a table with one real client and reads it with that one and another. Prints
the rows as read, the rows as counted, and whether a client without a certificate
and one that does not know the authority were let in.
"""

import json
import sys

import lance
import lance_namespace_urllib3_client as plain
from lance.namespace import RestNamespace

from staging import rows


def main():
    uri, token, authority, certificate, key = sys.argv[1:]
    known = {"tls.ssl_ca_cert": authority}
    shown = {"tls.cert_file": certificate, "tls.key_file": key}
    client = lambda **tls: RestNamespace(uri=uri, **{"headers.Authorization": f"Bearer {token}"}, **tls)  # noqa: E731

    whole = client(**known, **shown)
    lance.write_dataset(rows(0, 5), namespace_client=whole, table_id=["t"], mode="create")
    lance.write_dataset(rows(5, 2), namespace_client=whole, table_id=["t"], mode="append")
    read = lance.dataset(namespace_client=whole, table_id=["t"]).count_rows()

    settings = plain.Configuration(host=uri, ssl_ca_cert=authority)
    settings.cert_file, settings.key_file = certificate, key
    api = plain.TableApi(plain.ApiClient(settings, "Authorization", f"Bearer {token}"))
    listed = api.list_table_versions("t").versions

    def attempt(**tls):
        try:
            client(**tls).describe_table({"id": ["t"]})
            return "let in"
        except Exception:
            return "refused"

    print(
        json.dumps(
            {
                "read": read,
                "versions": len(listed),
                "without a certificate": attempt(**known),
                "of an unknown authority": attempt(**shown),
            }
        )
    )


main()
