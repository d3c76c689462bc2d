// The sample modules of Kubernetes, which no program needs, are not published for every release: they are replaced by this one.
module k8s.io/empty

go 1.26.0
