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
    "ingress": {
        "enabled": True,
        "className": "nginx",
        "hosts": ["catalog.example.com"],
        "tls": [{"secretName": "catalog-tls", "hosts": ["catalog.example.com"]}],
    },
    "httpRoute": {
        "enabled": True,
        "parentRefs": [{"name": "edge", "namespace": "gateways"}],
        "hostnames": ["catalog.example.com"],
    },
    "serviceAccount": {"create": True, "annotations": {"example.com/role": "catalogs"}},
    "extraVolumes": [{"name": "ca", "configMap": {"name": "lake-ca"}}],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/nsgate-ca", "readOnly": True}],
    "podLabels": {"team": "data"},
    "podAnnotations": {"example.com/scan": "off"},
}
# What each makes wrong, and the word by which the schema says so.
WRONG = {
    "auth": lambda values: values["config"].pop("auth"),
    "address": lambda values: values["config"].update(listen={"address": "0.0.0.0:80"}),
    "log": lambda values: values["config"].update(batch={"log": "/tmp/batches.redb"}),
    "replicas": lambda values: values.update(replicas=17),
    "hosts": lambda values: values["ingress"].update(hosts="catalog.example.com"),
    "timeout": lambda values: values["httpRoute"].update(timeout="long"),
    "mountPath": lambda values: values["extraVolumeMounts"][0].pop("mountPath"),
    "gateways": lambda values: values["config"].update(
        batch={"log": "postgres://gateway@db/nsgate", "gateways": {"address": "0.0.0.0:80"}}
    ),
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


def refuses(chart, values, word):
    """Checks that the chart does not render these values, and says why."""
    try:
        chart.render(values=values, name="refused")
    except Exception as refused:
        assert word in str(refused), refused
    else:
        raise AssertionError(f"the chart lets wrong values pass: {word}")


def waits_for_the_drain(chart):
    """Checks that a pod gets the time for its drain, in every unit of time."""
    for drain, grace in (("30s", 39), ("29500ms", 38), ("2m", 129), ("1h", 3609)):
        values = copy.deepcopy(VALUES)
        values["config"]["listen"] = {"drain_timeout": drain}
        refuses(chart, values | {"terminationGracePeriodSeconds": grace}, "terminationGracePeriodSeconds")
        chart.render(values=values | {"terminationGracePeriodSeconds": grace + 1}, name="edge")


def shared(chart):
    """Renders the chart for several gateways, and checks that it refuses them on a log in a file."""
    values = {**VALUES, **SHARED}
    chart.validate_schema(values)
    rendered = chart.render(values=values, name="fleet").items()
    texts = [text for name, text in rendered if name.endswith(".yaml")]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    workload = next(document for document in documents if document["kind"] == "Deployment")
    assert workload["spec"]["replicas"] == 3
    assert workload["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert "volumeClaimTemplates" not in workload["spec"]
    pod = workload["spec"]["template"]["spec"]
    assert "data" not in [volume["name"] for volume in pod["volumes"] + pod["containers"][0]["volumeMounts"]]
    assert {"POD_IP", "POD_NAME"} <= {variable["name"] for variable in pod["containers"][0]["env"]}
    labels = {"app.kubernetes.io/name": "nsgate", "app.kubernetes.io/instance": "fleet"}
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": labels}
    budget = next(document for document in documents if document["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    policy = next(document for document in documents if document["kind"] == "NetworkPolicy")
    allowed = [rule["from"] for rule in policy["spec"]["ingress"] if rule["ports"] == [{"port": "gateways"}]]
    assert allowed == [[{"podSelector": {"matchLabels": labels}}]], allowed
    for missing in ("batch", "gateways"):
        values = copy.deepcopy(VALUES) | {"replicas": 3}
        if missing == "gateways":
            values["config"]["batch"] = {"log": "postgres://gateway@db/nsgate"}
        refuses(chart, values, "replicas")
    return documents


def outside(chart, documents):
    """Checks the ways in for clients outside, and what is added to the pod; all of it is off unless it is asked for."""
    kinds = {document["kind"]: document for document in documents}
    [rule] = kinds["Ingress"]["spec"]["rules"]
    assert rule["host"] == "catalog.example.com"
    service = kinds["Service"]["metadata"]["name"].removesuffix("-admin")
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": service, "port": {"name": "http"}}
    [route] = kinds["HTTPRoute"]["spec"]["rules"]
    assert route["backendRefs"] == [{"name": service, "port": 80}]
    template = kinds["StatefulSet"]["spec"]["template"]
    pod = template["spec"]
    assert pod["serviceAccountName"] == kinds["ServiceAccount"]["metadata"]["name"]
    assert pod["automountServiceAccountToken"] is False
    assert "ca" in [volume["name"] for volume in pod["volumes"]]
    assert "ca" in [mount["name"] for mount in pod["containers"][0]["volumeMounts"]]
    assert template["metadata"]["labels"]["team"] == "data"
    assert template["metadata"]["annotations"] == {"example.com/scan": "off"}
    rendered = chart.render(values={"config": VALUES["config"]}, name="plain")
    texts = [text for name, text in rendered.items() if name.endswith(".yaml")]
    plain = [document for text in texts for document in yaml.safe_load_all(text) if document]
    assert not {"Ingress", "HTTPRoute", "ServiceAccount"} & {document["kind"] for document in plain}
    for word, change in (
        ("ingress.hosts", {"ingress": {"enabled": True}}),
        ("httpRoute.parentRefs", {"httpRoute": {"enabled": True}}),
        ("podLabels", {"podLabels": {"app.kubernetes.io/name": "other"}}),
    ):
        refuses(chart, {"config": VALUES["config"], **change}, word)


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
    waits_for_the_drain(chart)
    rendered = chart.render(values=VALUES, name="edge")
    manifests = {name: text for name, text in rendered.items() if name.endswith(".yaml")}
    documents = [document for text in manifests.values() for document in yaml.safe_load_all(text) if document]
    outside(chart, documents)
    rendered_rules = [document["spec"] for document in documents if document["kind"] == "PrometheusRule"]
    for spec, name in zip(rendered_rules, ["alerts.yml", "slo.yml"], strict=True):
        with open(f"{folder}/files/{name}") as rules:
            assert spec == yaml.safe_load(rules), f"the chart changes {name}"
    with open(out, "w") as file:
        yaml.safe_dump_all(documents + shared(chart), file)
    print(f"{len(documents)} manifests rendered, {len(WRONG)} wrong values refused")


main()
