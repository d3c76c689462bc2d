package admission

import (
	"net/netip"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
)

// guarded is a Service with 10.0.0.5 and fd00::5 that asks for additional addresses.
func guarded(name, from string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid of " + name),
			Annotations: map[string]string{v1alpha1.AnnotationAdditionalFrom: from},
		},
		Spec: corev1.ServiceSpec{
			ClusterIPs: []string{"10.0.0.5", "fd00::5"}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		},
	}
}

func changed(s *corev1.Service, do func(*corev1.Service)) *corev1.Service {
	do(s)
	return s
}

func going(s *corev1.Service) { s.DeletionTimestamp = new(metav1.Unix(1, 0)) }

func moved(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.0.0.9", "fd00::9"} }

func TestGuardIPAddress(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	clusterIP := ipAddress{managedBy: v1alpha1.ManagedByAPIServer, parent: web}
	additional := ipAddress{
		managedBy: v1alpha1.ManagedByOperator, purpose: v1alpha1.PurposeAdditional, parent: web, serviceCIDR: "blue", serviceUID: "uid of web",
	}
	for name, tc := range map[string]struct {
		object   ipAddress
		four     string
		six      string
		services []*corev1.Service
		want     string // a part of the refusal
	}{
		"of a Service that lives":                                  {clusterIP, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, "belongs to Service shop/web, which is in use; delete the Service"},
		"of a Service whose second one is about to get it":         {ipAddress{managedBy: v1alpha1.ManagedByAPIServer, purpose: v1alpha1.PurposeHandover, parent: web}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, ""},
		"of a second Service that lives":                           {ipAddress{managedBy: v1alpha1.ManagedByAPIServer, purpose: v1alpha1.PurposeSecond, parent: web}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, "belongs to Service shop/web, which is in use"},
		"of a Service that goes":                                   {clusterIP, "10.0.0.5", "fd00::5", []*corev1.Service{changed(guarded("web", ""), going)}, ""},
		"of a Service that is gone":                                {clusterIP, "10.0.0.5", "fd00::5", nil, ""},
		"of a Service that does not hold it":                       {clusterIP, "10.0.0.6", "fd00::6", []*corev1.Service{guarded("web", "")}, ""},
		"of a Service that another one deleted and holds":          {clusterIP, "10.0.0.5", "fd00::5", []*corev1.Service{changed(guarded("web", ""), going), guarded("db", "")}, "Service shop/db"},
		"of the API server, naming nobody that is there":           {clusterIP, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("db", "")}, ""},
		"of the API server, naming one that has another address":   {clusterIP, "10.0.0.5", "fd00::5", []*corev1.Service{changed(guarded("web", ""), moved), guarded("db", "")}, ""},
		"of the API server, naming one of two that hold it":        {clusterIP, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("db", ""), guarded("web", "")}, "Service shop/db"},
		"of the API server, naming no Service at all":              {ipAddress{managedBy: v1alpha1.ManagedByAPIServer}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, ""},
		"its label was lost, and it names nobody that is there":    {ipAddress{parent: web}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("db", "")}, ""},
		"its label was lost":                                       {ipAddress{parent: web}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, "Service shop/web"},
		"of another manager, naming the holder":                    {ipAddress{managedBy: "x", parent: web}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, "Service shop/web"},
		"of another manager, in the holder's way":                  {ipAddress{managedBy: "x"}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, ""},
		"a reservation of ours, in the holder's way":               {ipAddress{managedBy: v1alpha1.ManagedByOperator, purpose: v1alpha1.PurposeReservation}, "10.0.0.5", "fd00::5", []*corev1.Service{guarded("web", "")}, ""},
		"additional, asked for":                                    {additional, "10.1.0.5", "fd01::5", []*corev1.Service{guarded("web", "red,blue")}, "is an additional address of Service shop/web from ServiceCIDR blue; remove blue from the annotation"},
		"additional, not asked for any more":                       {additional, "10.1.0.5", "fd01::5", []*corev1.Service{guarded("web", "red")}, ""},
		"additional, the annotation is junk":                       {additional, "10.1.0.5", "fd01::5", []*corev1.Service{guarded("web", ",,")}, "Service shop/web"},
		"additional, the Service goes":                             {additional, "10.1.0.5", "fd01::5", []*corev1.Service{changed(guarded("web", "blue"), going)}, ""},
		"additional, of a Service of the same name":                {additional, "10.1.0.5", "fd01::5", []*corev1.Service{changed(guarded("web", "blue"), func(s *corev1.Service) { s.UID = "other" })}, ""},
		"additional, the Service is headless":                      {additional, "10.1.0.5", "fd01::5", []*corev1.Service{changed(guarded("web", "blue"), func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"None"} })}, ""},
		"additional, the Service became ExternalName":              {additional, "10.1.0.5", "fd01::5", []*corev1.Service{changed(guarded("web", "blue"), func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName })}, ""},
		"additional by its label, but of another manager, is none": {ipAddress{managedBy: "x", purpose: v1alpha1.PurposeAdditional, parent: web, serviceCIDR: "blue", serviceUID: "uid of web"}, "10.1.0.5", "fd01::5", []*corev1.Service{guarded("web", "blue")}, ""},
	} {
		for _, address := range []string{tc.four, tc.six} {
			t.Run(name+", "+address, func(t *testing.T) {
				in := guardInputsOf(tc.object, address, tc.services...)
				got := guardIPAddress(in)
				if tc.want == "" && got != "" {
					t.Errorf("refused: %s", got)
				}
				if !strings.Contains(got, tc.want) || tc.want != "" && !strings.HasPrefix(got, "IPAddress "+address) {
					t.Errorf("the answer %q does not say %q", got, tc.want)
				}
			})
		}
	}
}

func TestAnAdditionalAddressOfALostFamilyMayGo(t *testing.T) {
	s := changed(guarded("web", "blue"), func(s *corev1.Service) { s.Spec.IPFamilies = s.Spec.IPFamilies[:1] })
	additional := ipAddress{
		managedBy: v1alpha1.ManagedByOperator, purpose: v1alpha1.PurposeAdditional, serviceCIDR: "blue", serviceUID: s.UID,
		parent: types.NamespacedName{Namespace: "shop", Name: "web"},
	}
	for address, refused := range map[string]bool{"10.1.0.5": true, "fd01::5": false} {
		if got := guardIPAddress(guardInputsOf(additional, address, s)); (got != "") != refused {
			t.Errorf("%s: %q", address, got)
		}
	}
}

// A user makes a Service's IPAddress one of ours that cools: it would go, and its address be drawn.
func TestGuardIPAddressChanges(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	clusterIP := ipAddress{managedBy: v1alpha1.ManagedByAPIServer, parent: web}
	additional := ipAddress{
		managedBy: v1alpha1.ManagedByOperator, purpose: v1alpha1.PurposeAdditional, parent: web, serviceCIDR: "blue", serviceUID: "uid of web",
	}
	asOurs := func(ip *ipAddress) { ip.managedBy, ip.purpose = v1alpha1.ManagedByOperator, v1alpha1.PurposeCooling }
	lost := func(ip *ipAddress) { ip.managedBy = "" }
	for name, tc := range map[string]struct {
		before, after ipAddress
		four, six     string
		service       *corev1.Service
		want          string // a part of the refusal
	}{
		"a ClusterIP as ours":                       {clusterIP, with(clusterIP, asOurs), "10.0.0.5", "fd00::5", guarded("web", ""), "Service shop/web, which is in use; its labels ipaddress.kubernetes.io/managed-by and clusterip-operator.io/purpose"},
		"a ClusterIP as somebody's":                 {clusterIP, with(clusterIP, func(ip *ipAddress) { ip.managedBy = "x" }), "10.0.0.5", "fd00::5", guarded("web", ""), "Service shop/web"},
		"a ClusterIP as nobody's":                   {clusterIP, with(clusterIP, lost), "10.0.0.5", "fd00::5", guarded("web", ""), "Service shop/web"},
		"a ClusterIP whose label was lost, as ours": {with(clusterIP, lost), with(clusterIP, asOurs), "10.0.0.5", "fd00::5", guarded("web", ""), "Service shop/web"},
		"a ClusterIP that was ours, put right":      {with(clusterIP, asOurs), clusterIP, "10.0.0.5", "fd00::5", guarded("web", ""), ""},
		"a ClusterIP, our label alone means nothing": {clusterIP, with(clusterIP, func(ip *ipAddress) { ip.purpose = v1alpha1.PurposeCooling }),
			"10.0.0.5", "fd00::5", guarded("web", ""), ""},
		"a ClusterIP of a Service that goes": {clusterIP, with(clusterIP, asOurs), "10.0.0.5", "fd00::5", changed(guarded("web", ""), going), ""},
		"not a ClusterIP any more":           {clusterIP, with(clusterIP, asOurs), "10.0.0.5", "fd00::5", changed(guarded("web", ""), moved), ""},
		"an additional one as cooling":       {additional, with(additional, asOurs), "10.1.0.5", "fd01::5", guarded("web", "blue"), "stay as they are"},
		"an additional one of another range": {additional, with(additional, func(ip *ipAddress) { ip.serviceCIDR = "red" }), "10.1.0.5", "fd01::5", guarded("web", "blue"), "Service shop/web from ServiceCIDR blue"},
		"an additional one of another Service": {additional, with(additional, func(ip *ipAddress) { ip.serviceUID = "x" }),
			"10.1.0.5", "fd01::5", guarded("web", "blue"), "Service shop/web"},
		"an additional one that nobody asks for": {additional, with(additional, asOurs), "10.1.0.5", "fd01::5", guarded("web", "red"), ""},
	} {
		for _, address := range []string{tc.four, tc.six} {
			t.Run(name+", "+address, func(t *testing.T) {
				in := guardInputsOf(tc.before, address, tc.service)
				in.after, tc.after.address = &tc.after, in.address
				got := guardIPAddress(in)
				if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Errorf("the answer %q does not say %q", got, tc.want)
				}
			})
		}
	}
}

// Renumbering's own steps pass; no other user lets go of a former address that its Service lists.
func TestGuardFormerAddresses(t *testing.T) {
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	current := ipAddress{managedBy: v1alpha1.ManagedByAPIServer, parent: web}
	former := with(current, func(ip *ipAddress) { ip.former = true })
	additional := ipAddress{managedBy: v1alpha1.ManagedByOperator, purpose: v1alpha1.PurposeAdditional, parent: web, serviceUID: "uid of web", former: true}
	free := func(ip *ipAddress) { ip.former = false }
	lists := func(s *corev1.Service) {
		s.Annotations[v1alpha1.AnnotationFormerIPs] = "10.1.0.5,fd01::5"
	}
	has := func(s *corev1.Service) { s.Spec.ClusterIPs = []string{"10.1.0.5", "fd01::5"} }
	between := func(s *corev1.Service) {
		lists(s)
		s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, v1alpha1.ExternalNameRenumbering, nil
		s.Annotations[v1alpha1.AnnotationRenumbering] = "{}"
	}
	junk := func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationFormerIPs] = "bla" }
	plain := func(*corev1.Service) {}
	deleted := ipAddress{}
	for name, tc := range map[string]struct {
		before, after ipAddress
		service       func(*corev1.Service)
		refused       bool
	}{
		"1: it is held": {current, former, has, false},
		"1 taken back":  {former, current, has, false},
		"held, and deleted while the Service has it":     {former, deleted, has, true},
		"4: it becomes additional":                       {former, additional, lists, false},
		"4 before 3":                                     {former, additional, between, false},
		"5: the Service does not list it any more":       {additional, with(additional, free), plain, false},
		"5 without 4":                                    {former, current, plain, false},
		"5 for a Service with junk in the other list":    {additional, with(additional, free), func(s *corev1.Service) { s.Annotations[v1alpha1.AnnotationAdditionalFrom] = ",," }, false},
		"rollback: let go of, to be had again":           {additional, with(additional, free), between, false},
		"rollback before 4":                              {former, current, between, false},
		"rollback of one that the API server has":        {additional, deleted, between, false},
		"let go of while it is listed":                   {additional, with(additional, free), lists, true},
		"let go of while the list is junk":               {additional, with(additional, free), junk, true},
		"let go of before 4":                             {former, current, lists, true},
		"deleted":                                        {additional, deleted, lists, true},
		"becomes the API server's":                       {additional, former, lists, true},
		"becomes somebody's":                             {former, with(former, func(ip *ipAddress) { ip.managedBy = "x" }), lists, true},
		"becomes somebody's between the updates":         {former, with(former, func(ip *ipAddress) { ip.managedBy = "x" }), between, true},
		"becomes an additional one of another Service":   {former, with(additional, func(ip *ipAddress) { ip.serviceUID = "x" }), lists, true},
		"of another Service of the same name":            {with(additional, func(ip *ipAddress) { ip.serviceUID = "x" }), deleted, lists, false},
		"of a Service that goes":                         {additional, deleted, func(s *corev1.Service) { lists(s); going(s) }, false},
		"of a Service that became ExternalName for good": {additional, deleted, func(s *corev1.Service) { lists(s); s.Spec.Type = corev1.ServiceTypeExternalName }, false},
	} {
		for _, address := range []string{"10.1.0.5", "fd01::5"} {
			t.Run(name+", "+address, func(t *testing.T) {
				in := guardInputsOf(tc.before, address, changed(guarded("web", ""), tc.service))
				if tc.after != deleted {
					in.after = &tc.after
				}
				got := guardIPAddress(in)
				if (got != "") != tc.refused {
					t.Errorf("the answer is %q", got)
				}
				if got != "" && !in.services[0].holds && !strings.Contains(got, "`kubectl clusterip renumber`") {
					t.Errorf("the answer %q does not say what to do", got)
				}
			})
		}
	}
}

func guardInputsOf(ip ipAddress, address string, services ...*corev1.Service) guardInputs {
	ip.address = netip.MustParseAddr(address)
	in := guardInputs{ipAddress: ip}
	for _, s := range services {
		in.services = append(in.services, newClaimant(s, ip.address))
	}
	return in
}

func with(ip ipAddress, do func(*ipAddress)) ipAddress {
	do(&ip)
	return ip
}

func TestTrusted(t *testing.T) {
	for user, want := range map[string]bool{
		"": false, "kubernetes-admin": false, "system:apiserver": true, "system:kube-controller-manager": true,
		"system:serviceaccount:kube-system:generic-garbage-collector": true,
		"system:serviceaccount:clusterip-operator-system:manager":     true,
		"system:serviceaccount:kube-system:default":                   false,
	} {
		req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{Username: user}}}
		if got := trusted(req, "system:serviceaccount:clusterip-operator-system:manager"); got != want {
			t.Errorf("%q: %v", user, got)
		}
		if trusted(req, "") != (want && !strings.Contains(user, "clusterip-operator")) {
			t.Errorf("%q is trusted by an operator that does not know its own name", user)
		}
	}
}
