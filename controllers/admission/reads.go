package admission

import (
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/internal/webhook"
)

// What the webhooks read of the objects of a request; nothing else of them is ever held. Numbers
// are bytes of JSON. Names and addresses have the API server's own maximum, with room for quotes;
// labels, annotations and specs as much as a person or a tool may have a reason for.
var (
	// ReadsOfService is what ServiceSteerer reads. 8 KiB are about a hundred labels: the API server
	// knows no limit but the 1.5 MiB of an object.
	ReadsOfService = webhook.Members{
		"metadata": {Members: webhook.Members{
			"name": {Max: 256}, "generateName": {Max: 256}, "namespace": {Max: 256}, "labels": {Max: 8 << 10},
			"annotations": {Members: webhook.Members{v1alpha1.AnnotationAdditionalFrom: {Max: 4 << 10}, v1alpha1.AnnotationProbe: {Max: 256}}},
		}},
		"spec": {Members: webhook.Members{
			"type": {Max: 64}, "clusterIP": {Max: 128}, "clusterIPs": {Max: 256}, "ipFamilies": {Max: 64}, "ipFamilyPolicy": {Max: 64},
		}},
	}
	// ReadsOfIPAddress is what IPAddressGuard reads.
	ReadsOfIPAddress = webhook.Members{
		"metadata": {Members: webhook.Members{
			"name": {Max: 256}, "finalizers": {Max: 8 << 10},
			"labels":      {Members: webhook.Members{networkingv1.LabelManagedBy: {Max: 256}, v1alpha1.LabelPurpose: {Max: 256}}},
			"annotations": {Members: webhook.Members{v1alpha1.AnnotationServiceCIDR: {Max: 1 << 10}, v1alpha1.AnnotationServiceUID: {Max: 1 << 10}}},
		}},
		"spec": {Members: webhook.Members{"parentRef": {Max: 2 << 10}}},
	}
	// ReadsOfServiceCIDR is what ServiceCIDRGuard reads.
	ReadsOfServiceCIDR = webhook.Members{"spec": {Members: webhook.Members{"cidrs": {Max: 1 << 10}}}}
	// ReadsOfPolicy is what PolicyGuard reads. No policy that is longer can be stored.
	ReadsOfPolicy = webhook.Members{
		"metadata": {Members: webhook.Members{
			"name": {Max: 320}, "uid": {Max: 320}, "creationTimestamp": {Max: 64}, "deletionTimestamp": {Max: 64}, "generation": {Max: 32},
		}},
		"spec": {Max: 3 << 19},
	}
)
