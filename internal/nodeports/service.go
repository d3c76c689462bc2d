package nodeports

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Of returns the node ports of a Service, each number once and in order: those of its ports, and
// that of its health check. Nil for a Service without any.
func Of(s *corev1.Service) (out []uint16) {
	add := func(port int32) {
		if port > 0 && port <= 1<<16-1 {
			out = append(out, uint16(port))
		}
	}
	for i := range s.Spec.Ports {
		add(s.Spec.Ports[i].NodePort)
	}
	add(s.Spec.HealthCheckNodePort)
	slices.Sort(out)
	return slices.Compact(out)
}

// Remembered is what a cache keeps of the ports of a Service, for Of: one for each number, nil for
// none. API servers give a number to one Service, so that all Services of a cluster together have
// as many as the range, whatever their authors write.
func Remembered(s *corev1.Service) []corev1.ServicePort {
	numbers := Of(s)
	if len(numbers) == 0 {
		return nil
	}
	out := make([]corev1.ServicePort, len(numbers))
	for i, n := range numbers {
		out[i].NodePort = int32(n)
	}
	return out
}
