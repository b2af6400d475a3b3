"""Renders the chart with everything switched on, and holds its schema to what it must refuse.

usage: chart.py CHART OUT
"""

import copy
import sys

import helm_python as helm
import yaml

VALUES = {
    "config": {
        "auth": {"anonymous": True},
        "backends": {"lake": {"implementation": "rest", "properties": {"uri": "http://lake:2333"}}},
        "mounts": [{"namespace": [], "backend": "lake"}],
    },
    "tls": {"secret": "certificate"},
    "env": [{"name": "WAREHOUSE_KEY", "value": "x"}],
    "serviceMonitor": {"enabled": True},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboard": {"enabled": True},
}
# What each makes wrong, and the word by which the schema says so.
WRONG = {
    "auth": lambda values: values["config"].pop("auth"),
    "address": lambda values: values["config"].update(listen={"address": "0.0.0.0:80"}),
    "log": lambda values: values["config"].update(batch={"log": "/tmp/batches.redb"}),
    "replicas": lambda values: values.update(replicas=17),
    "accessMode": lambda values: values.update(persistence={"size": "1Gi", "accessMode": "ReadWriteMany"}),
}


# Several gateways on one log in PostgreSQL.
SHARED = {
    "replicas": 3,
    "config": {
        **VALUES["config"],
        "batch": {
            "log": "postgres://gateway@db/nsgate",
            "gateways": {"address": "0.0.0.0:8079", "advertise": "${POD_IP}:8079", "name": "${POD_NAME}"},
        },
    },
}


def shared(chart):
    """Renders the chart for several gateways, and checks that it refuses them on a log in a file."""
    values = {**VALUES, **SHARED}
    chart.validate_schema(values)
    rendered = chart.render(values=values, name="fleet").items()
    texts = [text for name, text in rendered if name.endswith(".yaml")]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    workload = next(document for document in documents if document["kind"] == "Deployment")
    assert workload["spec"]["replicas"] == 3
    volumes = [volume["name"] for volume in workload["spec"]["template"]["spec"]["volumes"]]
    assert "data" not in volumes and "volumeClaimTemplates" not in workload["spec"]
    for missing in ("batch", "gateways"):
        values = copy.deepcopy(VALUES) | {"replicas": 3}
        if missing == "gateways":
            values["config"]["batch"] = {"log": "postgres://gateway@db/nsgate"}
        try:
            chart.render(values=values, name="fleet")
        except Exception as refused:
            assert "replicas" in str(refused), refused
        else:
            raise AssertionError(f"several gateways without {missing} are rendered")
    return documents


def main():
    folder, out = sys.argv[1:]
    report = helm.lint(folder, VALUES)
    faults = [message for message in report["messages"] if message["severity"] > 1] + report["errors"]
    assert not faults, faults
    chart = helm.Chart.load(folder)
    chart.validate_schema(VALUES)
    for word, spoil in WRONG.items():
        values = copy.deepcopy(VALUES)
        spoil(values)
        try:
            chart.validate_schema(values)
        except Exception as refused:
            assert word in str(refused), refused
        else:
            raise AssertionError(f"the schema lets wrong values pass: {word}")
    rendered = chart.render(values=VALUES, name="edge")
    manifests = {name: text for name, text in rendered.items() if name.endswith(".yaml")}
    documents = [document for text in manifests.values() for document in yaml.safe_load_all(text) if document]
    rule = next(document for document in documents if document["kind"] == "PrometheusRule")
    with open(f"{folder}/files/alerts.yml") as rules:
        assert rule["spec"] == yaml.safe_load(rules), "the chart changes the alerting rules"
    with open(out, "w") as file:
        yaml.safe_dump_all(documents + shared(chart), file)
    print(f"{len(documents)} manifests rendered, {len(WRONG)} wrong values refused")


main()
