module moneystate/tests/deploy/operator

go 1.25

require github.com/kubeflow/spark-operator/v2 v2.4.0
