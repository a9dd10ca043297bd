"""The job with the settings of the StatefulSet. Spark's own code for Kubernetes makes the executors' pods, and the
image's entrypoint starts them. Only Kubernetes is a stand-in (`fake_kubernetes.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.deploy.commands import parsed
from tests.deploy.fake_kubernetes import DRIVER, NAMESPACE, Kubernetes, kubernetes
from tests.deploy.references import IMAGE, TEMPLATE, mib
from tests.deploy.rendered import KUBERNETES, Object, pods, rendered
from tests.deploy.schemas import schema_problems
from tests.job.harness import Setup, counts, small_workload
from tests.reference.model import Rules

# what the cluster would fill in; one executor is enough
HERE = {
    "spark.kubernetes.namespace": NAMESPACE,
    "spark.kubernetes.driver.pod.name": DRIVER,
    "spark.executor.instances": "1",
    TEMPLATE: str(KUBERNETES / "job" / "executor.yaml"),
}


@pytest.mark.long
def test_the_job_runs_on_executors_that_the_manifests_describe(
    setup: Setup, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)  # a local session of another test sets it for this process
    objects = rendered("job")
    (driver,) = [pod for pod in pods(objects) if pod.name == "enrichment"]
    of_spark = dict(text.split("=", 1) for text in parsed(driver, objects, tmp_path)["spark_config"])
    flags = [f"--spark-config={name}={value}" for name, value in {**of_spark, **HERE}.items()]
    setup.create_inputs()
    setup.send(small_workload("--events", "300"))
    with kubernetes(tmp_path) as (master, cluster):
        with setup.start("--master", master, *flags, "--until-caught-up", "--drain", "--json") as job:
            done = job.finish()
        assert done.code == 0, done.err
    want = setup.check_output(Rules(lookup=False), drain=True)
    assert {name: done.totals[name] for name in counts(want)} == counts(want)
    check_pods(cluster, of_spark)
    check_access(cluster, objects)


def check_pods(cluster: Kubernetes, settings: dict[str, str]) -> None:
    """Spark has made pods of the template that fit the schema and have the settings' memory."""
    made = [pod for name, pod in cluster.pods.items() if name != DRIVER]
    assert made
    assert list(schema_problems(made)) == []
    for pod in made:
        (container,) = pod["spec"]["containers"]
        memory = mib(settings["spark.executor.memory"]) + mib(settings["spark.executor.memoryOverhead"])
        assert container["resources"]["limits"]["memory"] == f"{memory}Mi"
        assert container["image"] == settings[IMAGE]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert {"checkpoints", "kafka"} <= {volume["name"] for volume in pod["spec"]["volumes"]}


def check_access(cluster: Kubernetes, objects: list[Object]) -> None:
    """The Role allows all that Spark has asked for."""
    (role,) = [one for one in objects if one["kind"] == "Role"]
    allowed = {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]}
    assert {("create", "pods"), ("watch", "pods"), ("create", "configmaps")} <= cluster.asked <= allowed
