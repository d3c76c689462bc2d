package compact

import (
	"encoding/hex"
	"math"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// identity is what is kept of the metadata of any object, but for the namespace.
type identity struct {
	readOnly
	name    string
	uid     [16]byte
	version uint64
	created uint32 // in seconds of the Unix epoch
}

// identify is false for metadata that differ in more than what an identity has.
func identify(m *metav1.ObjectMeta) (id identity, ok bool) {
	id.name = m.Name
	if id.uid, ok = parseUID(m.UID); !ok {
		return id, false
	}
	version, err := strconv.ParseUint(m.ResourceVersion, 10, 64)
	if err != nil || strconv.FormatUint(version, 10) != m.ResourceVersion {
		return id, false
	}
	created := m.CreationTimestamp.Unix()
	if created <= 0 || created > math.MaxUint32 || m.CreationTimestamp.Nanosecond() != 0 {
		return id, false
	}
	id.version, id.created = version, uint32(created)
	return id, m.DeletionTimestamp == nil && m.DeletionGracePeriodSeconds == nil && m.GenerateName == "" && m.Generation == 0 &&
		len(m.Annotations) == 0 && len(m.Finalizers) == 0 && len(m.OwnerReferences) == 0 && len(m.ManagedFields) == 0
}

// meta are the metadata of which identify made the identity, without namespace and labels.
func (id *identity) meta() metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: id.name, UID: id.GetUID(), ResourceVersion: id.GetResourceVersion(), CreationTimestamp: id.GetCreationTimestamp(),
	}
}

// GetName implements metav1.Object, as do the other methods that begin with Get.
func (id *identity) GetName() string { return id.name }

// GetUID returns the UID.
func (id *identity) GetUID() types.UID { return types.UID(formatUID(id.uid)) }

// GetResourceVersion returns the version.
func (id *identity) GetResourceVersion() string { return strconv.FormatUint(id.version, 10) }

// GetCreationTimestamp returns the time as a decoder returns it, in the local zone.
func (id *identity) GetCreationTimestamp() metav1.Time {
	return metav1.NewTime(time.Unix(int64(id.created), 0))
}

// parseUID reads a UID as API servers write it: RFC 4122, in small letters.
func parseUID(text types.UID) (uid [16]byte, ok bool) {
	if len(text) != 36 {
		return uid, false
	}
	var digits [32]byte
	n := 0
	for i := range len(text) {
		switch i {
		case 8, 13, 18, 23: // of the hyphens
		default:
			digits[n] = text[i]
			n++
		}
	}
	if _, err := hex.Decode(uid[:], digits[:]); err != nil {
		return uid, false
	}
	return uid, formatUID(uid) == string(text)
}

func formatUID(uid [16]byte) string {
	var out [36]byte
	for i, part := range [][2]int{{0, 4}, {4, 6}, {6, 8}, {8, 10}, {10, 16}} {
		at := 2*part[0] + i
		hex.Encode(out[at:], uid[part[0]:part[1]])
		if i > 0 {
			out[at-1] = '-'
		}
	}
	return string(out[:])
}
