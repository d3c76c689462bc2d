package etcdstore

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/clusterip-operator/clusterip-operator/controllers/migration"
)

func puts(n int) []migration.Write {
	var writes []migration.Write
	for i := range n {
		writes = append(writes, migration.Write{Key: fmt.Sprintf("key-%d", i), Raw: []byte("value")})
	}
	return writes
}

func TestTransactionRefuses(t *testing.T) {
	s := &Store{keys: newKeys(DefaultPrefix)}
	raw := []byte("value")
	for name, tc := range map[string]struct {
		writes []migration.Write
		want   []string
	}{
		"nothing":                     {nil, nil},
		"as many as fit":              {puts(128), nil},
		"one too many":                {puts(129), []string{"129 writes are more than the 128"}},
		"a key twice":                 {append(puts(2), puts(1)...), []string{"/registry/key-0: it is there twice"}},
		"a key twice, once absolute":  {append(puts(1), migration.Write{Key: "/registry/key-0", Delete: true, Guard: 1}), []string{"/registry/key-0: it is there twice"}},
		"no key":                      {[]migration.Write{{Raw: raw}}, []string{"a write has no key"}},
		"no value":                    {[]migration.Write{{Key: "a"}}, []string{"/registry/a: exactly one of"}},
		"two values":                  {[]migration.Write{{Key: "a", Raw: raw, Object: service()}}, []string{"/registry/a: exactly one of"}},
		"a value and a deletion":      {[]migration.Write{{Key: "a", Guard: 1, Raw: raw, Delete: true}}, []string{"/registry/a: exactly one of"}},
		"a revision that is none":     {[]migration.Write{{Key: "a", Guard: -1, Raw: raw}}, []string{"there is no revision -1"}},
		"deletion of what is absent":  {[]migration.Write{{Key: "a", Delete: true}}, []string{"cannot be deleted"}},
		"an object in a wrong format": {[]migration.Write{{Key: "a", Object: service(), APIVersion: "v2"}}, []string{"Service cannot be stored as v2"}},
		"everything":                  {[]migration.Write{{Key: "a"}, {Key: "a", Raw: raw}, {Raw: raw}}, []string{"exactly one", "twice", "no key"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.newTransaction(tc.writes)
			if len(tc.want) == 0 {
				if err != nil || len(got.writes) != len(tc.writes) {
					t.Fatalf("got %v, %v", got, err)
				}
				return
			}
			if err == nil || len(strings.Split(err.Error(), "\n")) != len(tc.want) {
				t.Fatalf("complaints %v, want %q", err, tc.want)
			}
			for i, complaint := range strings.Split(err.Error(), "\n") {
				if !strings.Contains(complaint, tc.want[i]) {
					t.Errorf("complaint %q, want %q", complaint, tc.want[i])
				}
			}
		})
	}
}

func TestConflictNamesKeys(t *testing.T) {
	s := &Store{keys: newKeys(DefaultPrefix)}
	few, err := s.newTransaction([]migration.Write{{Key: "a", Raw: []byte("1")}, {Key: "b", Guard: 7, Delete: true}, {Key: "c", Guard: 9, Delete: true}})
	if err != nil {
		t.Fatal(err)
	}
	many, err := s.newTransaction(puts(100))
	if err != nil {
		t.Fatal(err)
	}
	taken := &mvccpb.KeyValue{ModRevision: 8}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{
			few.conflict([]*mvccpb.KeyValue{taken, nil, {ModRevision: 9}}),
			"writing /registry/a and 2 more keys: the key was changed by somebody else: " +
				"/registry/a is at revision 8, not absent, /registry/b is absent, not at revision 7",
		},
		{
			many.conflict(append(make([]*mvccpb.KeyValue, 90), taken, taken, taken, taken, taken, taken, taken, nil, nil, nil)),
			"writing /registry/key-0 and 99 more keys: the key was changed by somebody else: /registry/key-90 is at revision 8, not absent, " +
				"/registry/key-91 is at revision 8, not absent, /registry/key-92 is at revision 8, not absent, " +
				"/registry/key-93 is at revision 8, not absent, /registry/key-94 is at revision 8, not absent, and 2 more",
		},
	} {
		if !errors.Is(tc.err, migration.ErrConflict) || tc.err.Error() != tc.want {
			t.Errorf("got  %v\nwant %s", tc.err, tc.want)
		}
	}
}
