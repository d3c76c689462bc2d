package steering

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

func TestAddressesOfAReservation(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.5": "[10.0.0.5]", "fd00::fe-fd00::101": "[fd00::fe fd00::ff fd00::100 fd00::101]",
		"255.255.255.254-255.255.255.255": "[255.255.255.254 255.255.255.255]", // the last there are
	} {
		span, err := ParseReservation(text)
		if got := fmt.Sprint(slices.Collect(Reservation{Span: span}.Addresses())); err != nil || got != want {
			t.Errorf("%s: %s (%v), want %s", text, got, err, want)
		}
	}
}

func TestWhatOfASpanIsReserved(t *testing.T) {
	policy := &v1alpha1.ServiceCIDRPolicy{}
	for _, address := range []string{"10.0.0.5", "10.0.0.16/28", "fd00::10-fd00::1f", "10.0.0.6"} {
		policy.Spec.Reservations = append(policy.Spec.Reservations, v1alpha1.Reservation{Name: address, Address: address})
	}
	compiled := Compile(Inputs{Policies: []*v1alpha1.ServiceCIDRPolicy{policy}})
	for text, want := range map[string]string{
		"10.0.0.7-10.0.0.15":  "[]",
		"10.0.0.1-10.0.0.254": "[10.0.0.5-10.0.0.5 10.0.0.6-10.0.0.6 10.0.0.16-10.0.0.31]",
		"10.0.0.6-10.0.0.20":  "[10.0.0.6-10.0.0.6 10.0.0.16-10.0.0.20]", // cut off at the ends
		"fd00::12-fd00::13":   "[fd00::12-fd00::13]",
		"fd00::20-fd00::ff":   "[]",
	} {
		span, err := ParseReservation(text)
		if diff := gocmp.Diff(want, fmt.Sprint(compiled.ReservedIn(span))); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
}
