package migration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/clusterip-operator/clusterip-operator/api/v1alpha1"
	"github.com/clusterip-operator/clusterip-operator/controllers/internal/upstream"
)

// batch is how many IPAddresses are written in one transaction; there is a note with them.
const batch = MaxWrites - 1

// prefixNotes is where a transaction leaves a note of the IPAddresses that it created. No API server serves a group of this
// name, so that none of them meets the notes.
const prefixNotes = v1alpha1.Prefix + "/seeded/"

// note names the IPAddresses that were created in the same transaction, so that they have its revision as long as nobody
// changes them.
type note struct {
	Addresses []string `json:"addresses"`
}

// storeWriter writes into etcd, as API servers store what they write.
type storeWriter struct {
	store Store
	now   func() time.Time
}

// applyToStore carries out steps, those that create many at a time.
func (r Runner) applyToStore(ctx context.Context, steps []Step) (written int, err error) {
	w := storeWriter{r.Sources.Store, r.Sources.Clock.Now}
	for chunk := range slices.Chunk(steps, batch) {
		n, err := w.applyAll(ctx, chunk)
		if written += n; err != nil {
			return written, err
		}
		r.Progress.Done(len(chunk))
	}
	return written, nil
}

// applyAll carries out what creates in one transaction, and everything else step by step. If some of it exists already, it is
// tried one by one.
func (w storeWriter) applyAll(ctx context.Context, steps []Step) (written int, err error) {
	var single []Step
	creates := slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Do != CreateIPAddress })
	switch err := w.create(ctx, creates); {
	case errors.Is(err, ErrConflict):
		single = steps
	case err != nil:
		return 0, err
	default:
		written = len(creates)
		single = slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return s.Do == CreateIPAddress })
	}
	for _, s := range single {
		switch err := w.apply(ctx, s); {
		case err == nil:
			written++
		case !errors.Is(err, errMoved):
			return written, fmt.Errorf("%s %s: %w", s.Do, s.What(), err)
		}
	}
	return written, nil
}

// create writes the IPAddresses and a note of them, all or nothing.
func (w storeWriter) create(ctx context.Context, steps []Step) error {
	if len(steps) == 0 {
		return nil
	}
	var n note
	writes := make([]Write, 0, len(steps)+1)
	for _, s := range steps {
		writes = append(writes, Write{Key: keyOfIPAddress(s), Object: w.object(s)})
		n.Addresses = append(n.Addresses, s.Address.String())
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	writes = append(writes, Write{Key: prefixNotes + string(uuid.NewUUID()), Raw: text})
	_, err = w.store.Commit(ctx, writes)
	return err
}

// apply carries out one step.
func (w storeWriter) apply(ctx context.Context, s Step) error {
	var err error
	switch s.Do {
	case CreateIPAddress:
		err = w.create(ctx, []Step{s})
	case DeleteIPAddress:
		_, err = w.store.Commit(ctx, []Write{{Key: keyOfIPAddress(s), Guard: s.revision(), Delete: true}})
	case ReplaceIPAddress:
		_, err = w.store.Commit(ctx, []Write{{Key: keyOfIPAddress(s), Guard: s.revision(), Object: w.object(s)}})
	case RelabelIPAddress:
		err = w.relabel(ctx, s)
	default:
		return fmt.Errorf("%q is not done in etcd", s.Do)
	}
	if errors.Is(err, ErrConflict) {
		return errMoved
	}
	return err
}

func (w storeWriter) relabel(ctx context.Context, s Step) error {
	v, err := w.store.Get(ctx, keyOfIPAddress(s))
	if err != nil {
		return err
	}
	ip, ok := v.Object.(*networkingv1.IPAddress)
	if !ok || v.ModRevision != s.revision() {
		return errMoved
	}
	ip = ip.DeepCopy()
	if ip.Labels == nil {
		ip.Labels = map[string]string{}
	}
	maps.Copy(ip.Labels, upstream.Labels(s.Address))
	_, err = w.store.Commit(ctx, []Write{{Key: v.Key, Guard: v.ModRevision, Object: ip, APIVersion: v.APIVersion}})
	return err
}

// object is the IPAddress as an API server stores it.
func (w storeWriter) object(s Step) *networkingv1.IPAddress {
	ip := upstream.NewIPAddress(s.Address, types.NamespacedName(s.Service))
	now := metav1.NewTime(w.now().Truncate(time.Second))
	ip.UID, ip.CreationTimestamp = uuid.NewUUID(), now
	ip.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.ManagerMigration, Operation: metav1.ManagedFieldsOperationUpdate,
		APIVersion: networkingv1.SchemeGroupVersion.String(), Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(ownedFields),
	}}
	return ip
}

// ownedFields are the fields of an IPAddress of the allocator, as server-side apply writes them down.
const ownedFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

func keyOfIPAddress(s Step) string { return prefixIPAddresses + s.Address.String() }

// revision is the ModRevision of the object that the plan saw; a resourceVersion is nothing else.
func (s Step) revision() int64 {
	n, _ := strconv.ParseInt(s.ResourceVersion, 10, 64)
	return n
}
