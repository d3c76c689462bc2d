package agentwatch_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

// compact lets etcd forget everything but the present, so that no watch can go on from where it was.
func compact(ctx context.Context, cp *framework.ControlPlane) {
	GinkgoHelper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{cp.Etcd.URL()}, Logger: zap.NewNop(), DialTimeout: 5 * time.Second})
	Expect(err).NotTo(HaveOccurred())
	defer func() { Expect(client.Close()).To(Succeed()) }()
	now, err := client.Get(ctx, "/")
	Expect(err).NotTo(HaveOccurred())
	_, err = client.Compact(ctx, now.Header.Revision)
	Expect(err).NotTo(HaveOccurred())
}
