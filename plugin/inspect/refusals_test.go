package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// Ten that tell a user the same are one with a count; another policy, namespace or text is another.
func TestFoldRefusals(t *testing.T) {
	at := func(second int64) metav1.MicroTime { return metav1.NewMicroTime(time.Unix(second, 0)) }
	var all []pastRefusal
	for i := range int64(10) {
		all = append(all, pastRefusal{"blue", v1alpha1.PolicyRefusal{Time: at(100 + i), Service: fmt.Sprint("shop/web-", i), Message: "full"}})
	}
	all[3].Count, all[3].First = 5, new(at(50))
	all = append(all,
		pastRefusal{"red", v1alpha1.PolicyRefusal{Time: at(90), Service: "shop/web", Message: "full"}},
		pastRefusal{"blue", v1alpha1.PolicyRefusal{Time: at(80), Service: "other/web", Message: "full"}},
		pastRefusal{"blue", v1alpha1.PolicyRefusal{Time: at(120), Service: "shop/web", Message: "closed"}})
	want := []pastRefusal{
		{"blue", v1alpha1.PolicyRefusal{Time: at(120), Service: "shop/web", Message: "closed"}},
		{"blue", v1alpha1.PolicyRefusal{Time: at(109), First: new(at(50)), Count: 14, Service: "shop/web-9", Message: "full"}},
		{"red", v1alpha1.PolicyRefusal{Time: at(90), Service: "shop/web", Message: "full"}},
		{"blue", v1alpha1.PolicyRefusal{Time: at(80), Service: "other/web", Message: "full"}},
	}
	if diff := cmp.Diff(want, foldRefusals(all)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
