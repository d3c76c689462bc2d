package operation

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/test/framework"
)

func TestAbsenceEndsWithAReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &absence{deleted: map[string]time.Time{"10.96.0.1": time.Now()}}
		time.Sleep(2 * time.Second)

		var r Restored
		ours := framework.NewIPAddress("10.96.0.1", "bench", "service-000001")
		ours.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: v1alpha1.ManagerIPAddress}}
		v.observe(watch.Event{Type: watch.Deleted, Object: ours}, &r)
		v.observe(watch.Event{Type: watch.Added, Object: ours}, &r)
		v.observe(watch.Event{Type: watch.Modified, Object: ours}, &r)
		v.observe(watch.Event{Type: watch.Added, Object: framework.NewIPAddress("10.96.0.2", "bench", "service-000002")}, &r)

		if len(r.Seconds) != 2 || r.Seconds[0] != 2 || r.Seconds[1] != 0 {
			t.Errorf("away for %v s, want 2 and, for the one that was back before its deletion was answered, 0", r.Seconds)
		}
		if r.Ours != 1 {
			t.Errorf("the operator restored %d, want 1", r.Ours)
		}
	})
}
