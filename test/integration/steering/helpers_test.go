package steering_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// lower is a family as a part of names.
func lower(family corev1.IPFamily) string { return strings.ToLower(string(family)) }

// inRange succeeds for an address of a range.
func inRange(cidr string) gomegatypes.GomegaMatcher {
	return Satisfy(func(address string) bool { return netip.MustParsePrefix(cidr).Contains(netip.MustParseAddr(address)) })
}

// leave deletes what was created.
func leave(service *corev1.Service, err error) error {
	if err != nil {
		return err
	}
	return bed.Client().CoreV1().Services(service.Namespace).Delete(context.Background(), service.Name, metav1.DeleteOptions{})
}

// label sets a label of a ServiceCIDR.
func label(ctx context.Context, serviceCIDR, key, value string) {
	GinkgoHelper()
	_, err := bed.Networking().ServiceCIDRs().Patch(ctx, serviceCIDR, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// change updates a Service and returns what the API server made of it.
func change(ctx context.Context, service *corev1.Service, how func(*corev1.Service)) (changed *corev1.Service) {
	GinkgoHelper()
	changed, err := tryChange(ctx, service, how)
	Expect(err).NotTo(HaveOccurred())
	return changed
}

func tryChange(ctx context.Context, service *corev1.Service, how func(*corev1.Service)) (changed *corev1.Service, err error) {
	services := bed.Client().CoreV1().Services(service.Namespace)
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := services.Get(ctx, service.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		how(now)
		changed, err = services.Update(ctx, now, metav1.UpdateOptions{})
		return err
	})
	return changed, err
}
