package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// pauseImage is what pods are held by. It is one of ours, so that no node asks a registry.
const pauseImage = "docker.io/clusterip-operator/pause:dev"

// writeFiles writes what containerd, kubelet and the plugins of the network read on the i-th node.
func (n *Node) writeFiles(c *Cluster, i int, p programs) error {
	certificate, key, err := c.ServerCert([]string{n.Name}, n.Addresses[:]...)
	if err != nil {
		return fmt.Errorf("issuing a certificate to %s: %w", n.Name, err)
	}
	ca, _, _ := c.CA()
	in := func(name string) string { return filepath.Join(n.dir, name) }
	if i == 1 {
		if err := c.writeEtcdCertificates(in("etc/kubernetes/pki")); err != nil {
			return fmt.Errorf("issuing a certificate for etcd: %w", err)
		}
	}
	return errors.Join(
		write(in("kubelet.crt"), string(certificate)), write(in("kubelet.key"), string(key)), write(in("resolv.conf"), ""),
		write(in("containerd.toml"), containerdConfig(n.dir, p)),
		write(in("kubelet.yaml"), kubeletConfig(n.dir, ca)),
		write(in("cni/10-bridge.conflist"), networkConfig(i)),
		c.kubeconfig(in("kubeconfig"), "system:node:"+n.Name, "system:nodes"),
	)
}

// writeEtcdCertificates writes an etcd client's certificate where kubeadm leaves it on such a node.
func (c *Cluster) writeEtcdCertificates(dir string) error {
	client, err := c.ConfigForUser("kube-apiserver-etcd-client")
	if err != nil {
		return err
	}
	return errors.Join(
		write(filepath.Join(dir, "etcd", "ca.crt"), string(client.CAData)),
		write(filepath.Join(dir, "apiserver-etcd-client.crt"), string(client.CertData)),
		write(filepath.Join(dir, "apiserver-etcd-client.key"), string(client.KeyData)),
	)
}

// containerdConfig keeps containerd from lowering its own OOM score and from loading profiles.
func containerdConfig(dir string, p programs) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = ["io.containerd.nri.v1.nri"]
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = %q
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  tolerate_missing_hugetlb_controller = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [%q]
    conf_dir = %q
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false
`, pauseImage, filepath.Join(p.debian, "usr/lib/cni"), filepath.Join(dir, "cni"), filepath.Join(p.debian, "usr/sbin/runc"))
}

// kubeletConfig accepts full disks and memory of the machine, and resolves no names outside.
func kubeletConfig(dir, ca string) string {
	return strings.NewReplacer("$DIR", dir, "$CA", ca).Replace(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: "::"
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $CA}}
authorization: {mode: Webhook}
tlsCertFile: $DIR/kubelet.crt
tlsPrivateKeyFile: $DIR/kubelet.key
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: $DIR/resolv.conf
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`)
}

// networkConfig gives pods addresses of both families, on a bridge of the node.
func networkConfig(i int) string {
	ranges := podRanges(i)
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "pods", "plugins": [
 {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipMasq": false,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}], [{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
`, ranges[0], ranges[1])
}
