package health

import (
	"errors"
	"maps"
	"net/netip"
	"testing"
)

func TestReadFormer(t *testing.T) {
	unavailable := errors.New("the server is currently unable to handle the request")
	for name, tc := range map[string]struct {
		answer  string
		err     error
		want    map[netip.Addr]int
		wantErr string
	}{
		"counts":           {answer: `{"countedAt":"2026-01-02T12:00:00Z","addresses":{"10.96.0.5":3}}`, want: map[netip.Addr]int{netip.MustParseAddr("10.96.0.5"): 3}},
		"nothing to count": {answer: `{"addresses":{}}`},
		"a reason":         {answer: `{"reason":"nothing has been counted yet"}`, err: unavailable, wantErr: "nothing has been counted yet; try again in a moment"},
		"no agent":         {answer: "error trying to reach service", err: unavailable, wantErr: unavailable.Error()},
		"something else":   {answer: "<html>", wantErr: "reading its answer: invalid character '<' looking for beginning of value"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readFormer([]byte(tc.answer), tc.err)
			if said := errorText(err); said != tc.wantErr || !maps.Equal(got, tc.want) {
				t.Errorf("got %v, %q", got, said)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
